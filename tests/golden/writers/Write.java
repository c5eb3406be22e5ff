// Writes a file with parquet-java, as Spark, Hive and Trino have it: see ../make_writers.py. Arguments: the file, its rows, "1" or "2" for the version of pages.

import org.apache.hadoop.fs.Path;
import org.apache.parquet.column.ParquetProperties.WriterVersion;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.NanoTime;
import org.apache.parquet.example.data.simple.SimpleGroup;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.example.ExampleParquetWriter;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.MessageTypeParser;

class Write {
    static final String SCHEMA = """
        message rows {
          required int64 id;
          optional binary text (STRING);
          optional double half;
          required boolean flag;
          required int32 tiny (INTEGER(8,true));
          required int64 unsigned (INTEGER(64,false));
          required binary word (ENUM);
          required int32 price (DECIMAL(9,2));
          required int64 cost (DECIMAL(18,4));
          required fixed_len_byte_array(16) large (DECIMAL(38,6));
          required int32 day (DATE);
          required int64 when (TIMESTAMP(MICROS,true));
          required int64 local (TIMESTAMP(MILLIS,false));
          required int96 old;
          required int32 clock (TIME(MILLIS,true));
          required fixed_len_byte_array(4) fixed;
          optional group list (LIST) { repeated group list { optional int32 element; } }
          repeated int32 bare;
          optional group box { optional int32 left; required binary name (STRING); }
          optional group map (MAP) { repeated group key_value { required binary key (STRING); optional int64 value; } }
        }
        """;

    static Group row(MessageType schema, int row) {
        Group group = new SimpleGroup(schema).append("id", (long) row);
        if (row % 3 != 0) group.append("text", "text " + row % 5);
        if (row % 4 != 0) group.append("half", row / 2.0);
        group.append("flag", row % 2 == 0).append("tiny", row - 20).append("unsigned", -1L - row).append("word", "abc".substring(row % 3, row % 3 + 1));
        group.append("price", row * 25 - 100).append("cost", row * 12345L).append("large", Binary.fromConstantByteArray(
            java.nio.ByteBuffer.allocate(16).putLong(row % 2 == 0 ? 0 : -1).putLong(row % 2 == 0 ? row : -row).array()));
        group.append("day", 19_000 + row).append("when", 1_700_000_000_000_000L + row).append("local", 1_700_000_000_000L + row);
        group.append("old", new NanoTime(2_460_000, row * 1_000_000_000L)).append("clock", row * 1_000);
        group.append("fixed", Binary.fromConstantByteArray(new byte[] {(byte) row, 1, 2, 3}));
        if (row % 5 != 0) {
            Group list = group.addGroup("list");
            for (int n = 0; n < row % 4; n++) {
                Group entry = list.addGroup("list");
                if (n != 1) entry.append("element", row * n);
            }
        }
        for (int n = 0; n < row % 3; n++) group.append("bare", n);
        if (row % 6 != 0) {
            Group box = group.addGroup("box");
            if (row % 2 == 0) box.append("left", row);
            box.append("name", "box " + row);
        }
        Group map = group.addGroup("map");
        for (int n = 0; n < row % 3; n++) map.addGroup("key_value").append("key", "k" + n).append("value", (long) row);
        return group;
    }

    public static void main(String[] arguments) throws Exception {
        MessageType schema = MessageTypeParser.parseMessageType(SCHEMA);
        try (ParquetWriter<Group> writer = ExampleParquetWriter.builder(new Path(arguments[0])).withType(schema)
                .withWriterVersion(arguments[2].equals("2") ? WriterVersion.PARQUET_2_0 : WriterVersion.PARQUET_1_0)
                .withCompressionCodec(arguments[2].equals("2") ? CompressionCodecName.ZSTD : CompressionCodecName.GZIP)
                .withPageRowCountLimit(16).withPageWriteChecksumEnabled(true).build()) {
            for (int row = 0; row < Integer.parseInt(arguments[1]); row++) writer.write(row(schema, row));
        }
    }
}
