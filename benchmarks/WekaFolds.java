import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import weka.classifiers.Classifier;
import weka.core.Instances;

/** Fit a classifier of WEKA to each training file and print its predictions of the test file. */
public class WekaFolds {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] files = line.split("\t");
            Instances train = read(files[0]);
            Instances test = read(files[1]);
            String[] options = Arrays.copyOfRange(args, 1, args.length);
            Classifier classifier = Classifier.forName(args[0], options);
            classifier.buildClassifier(train);
            StringBuilder found = new StringBuilder("#");
            for (int i = 0; i < test.numInstances(); i++) {
                found.append(" ").append((int) classifier.classifyInstance(test.instance(i)));
            }
            System.out.println(found);
        }
    }

    private static Instances read(String path) throws Exception {
        Instances data = new Instances(new FileReader(path));
        data.setClassIndex(data.numAttributes() - 1);
        return data;
    }
}
