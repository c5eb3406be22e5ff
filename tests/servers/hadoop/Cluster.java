import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.server.datanode.DataNode;

/**
 * A name node and data nodes on loopback: java Cluster.java FOLDER DATA_NODES. Says "ready PORT"; takes "stop NUMBER" and
 * "start NUMBER" of a data node, and says "done"; ends with its input.
 */
public class Cluster {
    public static void main(String[] arguments) {
        try {
            run(arguments);
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1); // other threads would keep it alive
        }
    }

    private static void run(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setInt("dfs.replication", 2);
        settings.setInt("dfs.blocksize", 1 << 20);
        settings.setBoolean("dfs.permissions.enabled", true);
        File folder = new File(arguments[0]);
        int dataNodes = Integer.parseInt(arguments[1]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, folder)
                .numDataNodes(dataNodes)
                .storagesPerDatanode(1)
                .build();
        cluster.waitActive();
        String[] names = new String[dataNodes];
        for (int number = 0; number < dataNodes; number++) {
            names[number] = cluster.getDataNodes().get(number).getDisplayName();
        }
        Map<Integer, MiniDFSCluster.DataNodeProperties> stopped = new HashMap<>();
        System.out.println("ready " + cluster.getNameNodePort());
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            int number = Integer.parseInt(line.split(" ")[1]);
            if (line.startsWith("stop ")) {
                stopped.put(number, cluster.stopDataNode(names[number]));
            } else {
                cluster.restartDataNode(stopped.remove(number), false);
                DataNode started = cluster.getDataNodes().get(cluster.getDataNodes().size() - 1);
                cluster.waitDatanodeFullyStarted(started, 30_000);
                names[number] = started.getDisplayName();
            }
            System.out.println("done");
        }
    }
}
