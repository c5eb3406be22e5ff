// Writes PATH.arrow and PATH.arrows with apache-arrow: npm ci, then node write.mjs PATH.
import * as arrow from "apache-arrow";
import { writeFileSync } from "node:fs";

const rows = [...Array(40).keys()];
const count = (n, make = (one) => one) => [...Array(n).keys()].map(make);
const field = (name, type) => new arrow.Field(name, type, true);
const column = (type, value) => arrow.vectorFromArray(rows.map(value), type);
const box = new arrow.Struct([field("left", new arrow.Int32()), field("name", new arrow.Utf8())]);
const texts = new arrow.List(field("item", new arrow.Utf8()));
const entry = new arrow.Struct([new arrow.Field("key", new arrow.Utf8(), false), field("value", new arrow.Int32())]);

const table = new arrow.Table({
  id: column(new arrow.Int64(), BigInt),
  text: column(new arrow.Utf8(), (n) => (n % 3 ? `text ${n % 5}` : null)),
  word: column(new arrow.Dictionary(new arrow.Utf8(), new arrow.Int8()), (n) => "abc"[n % 3]),
  flag: column(new arrow.Bool(), (n) => n % 2 === 0),
  half: column(new arrow.Float64(), (n) => (n % 4 ? n / 2 : null)),
  quarter: column(new arrow.Float16(), (n) => n / 4),
  tiny: column(new arrow.Int8(), (n) => n - 20),
  large: column(new arrow.Uint64(), (n) => 18446744073709551615n - BigInt(n)),
  data: column(new arrow.Binary(), (n) => new Uint8Array(n % 4).fill(255)),
  key: column(new arrow.FixedSizeBinary(4), (n) => new Uint8Array(4).fill(n)),
  day: column(new arrow.DateDay(), (n) => new Date(86_400_000 * n)),
  when: column(new arrow.TimestampMicrosecond(), (n) => 1_700_000_000_000 + n),
  utc: column(new arrow.TimestampMillisecond("UTC"), (n) => 1_700_000_000_000 + n),
  clock: column(new arrow.TimeMicrosecond(), BigInt),
  span: column(new arrow.DurationSecond(), BigInt),
  list: column(new arrow.List(field("item", new arrow.Int32())), (n) => count(n % 4)),
  lists: column(new arrow.List(field("item", texts)), (n) => count(n % 3, (x) => [`s${x}`])),
  pair: column(new arrow.FixedSizeList(2, field("item", new arrow.Int32())), (n) => [n, -n]),
  box: column(box, (n) => ({ left: n, name: `box ${n}` })),
  maybe: column(box, (n) => (n % 6 ? { left: n, name: "a" } : null)),
  map: column(
    new arrow.Map_(new arrow.Field("entries", entry, false)),
    (n) => new Map(count(n % 3, (x) => [`k${x}`, n])),
  ),
});
for (const form of ["file", "stream"]) {
  writeFileSync(process.argv[2] + (form === "file" ? ".arrow" : ".arrows"), arrow.tableToIPC(table, form));
}
