package main

import (
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const rows = 40

func schema() *arrow.Schema {
	f := func(name string, kind arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: kind, Nullable: true}
	}
	box := arrow.StructOf(f("left", arrow.PrimitiveTypes.Int32), f("name", arrow.BinaryTypes.String))
	codes := []arrow.UnionTypeCode{5, 7}
	either := []arrow.Field{f("number", arrow.PrimitiveTypes.Int64), f("word", arrow.BinaryTypes.String)}
	return arrow.NewSchema([]arrow.Field{
		f("id", arrow.PrimitiveTypes.Int64),
		f("text", arrow.BinaryTypes.String),
		f("large_text", arrow.BinaryTypes.LargeString),
		f("view", arrow.BinaryTypes.StringView),
		f("data_view", arrow.BinaryTypes.BinaryView),
		f("word", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}),
		f("half", arrow.PrimitiveTypes.Float64),
		f("price", &arrow.Decimal128Type{Precision: 9, Scale: 2}),
		f("wide", &arrow.Decimal256Type{Precision: 50, Scale: 2}),
		f("clock", arrow.FixedWidthTypes.Time64us),
		f("utc", &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}),
		f("zoned", &arrow.TimestampType{Unit: arrow.Second, TimeZone: "Europe/Berlin"}),
		f("span", arrow.FixedWidthTypes.Duration_ms),
		f("gap", arrow.FixedWidthTypes.MonthDayNanoInterval),
		f("list", arrow.ListOf(arrow.PrimitiveTypes.Int32)),
		f("list_view", arrow.ListViewOf(arrow.PrimitiveTypes.Int32)),
		f("large_list", arrow.LargeListOf(arrow.BinaryTypes.String)),
		f("pair", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Int32)),
		f("box", box),
		f("boxes", arrow.ListOf(box)),
		f("map", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Int32)),
		f("runs", arrow.RunEndEncodedOf(arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)),
		f("dense", arrow.DenseUnionOf(either, codes)),
		f("sparse", arrow.SparseUnionOf(either, codes)),
	}, nil)
}

// row is one row as JSON, which Arrow's own builders read.
func row(n int) string {
	list := func(count int, format string) string {
		out := "["
		for i := 0; i < count; i++ {
			if i > 0 {
				out += ","
			}
			out += fmt.Sprintf(format, i)
		}
		return out + "]"
	}
	text := fmt.Sprintf(`"text %d"`, n%5)
	if n%3 == 0 {
		text = "null"
	}
	half := fmt.Sprintf("%g", float64(n)/2)
	if n%4 == 0 {
		half = "null"
	}
	either := fmt.Sprintf(`[5,%d]`, n)
	if n%2 == 1 {
		either = fmt.Sprintf(`[7,"w%d"]`, n)
	}
	box := fmt.Sprintf(`{"left":%d,"name":"box %d"}`, n, n)
	boxes := list(n%3, fmt.Sprintf(`{"left":%d,"name":"l%%d"}`, n))
	pairs := list(n%3, fmt.Sprintf(`{"key":"k%%d","value":%d}`, n))
	return fmt.Sprintf(`{"id":%d,"text":%s,"large_text":"large %d","view":"a text longer than a view holds %d","data_view":"/////////////////////w==","word":"%c",`+
		`"half":%s,"price":"%d.25","wide":"-%d.75","clock":"%02d:00:00.5","utc":"2023-11-14T22:13:20.%06dZ","zoned":%d,"span":"%dms","gap":{"months":1,"days":2,"nanoseconds":3},`+
		`"list":%s,"list_view":%s,"large_list":%s,"pair":[%d,-%d],"box":%s,"boxes":%s,"map":%s,"runs":"run %d","dense":%s,"sparse":%s}`+"\n",
		n, text, n, n, "abc"[n%3], half, n, n, n%24, n, 1700000000+n, n, list(n%4, "%d"), list(n%4, "%d"), list(n%3, `"s%d"`), n, n, box, boxes, pairs, n/7, either, either)
}

func record(sch *arrow.Schema, first, last int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, sch)
	defer b.Release()
	for n := first; n < last; n++ {
		if err := b.UnmarshalJSON([]byte(row(n))); err != nil {
			panic(fmt.Sprint(n, err))
		}
	}
	return b.NewRecordBatch()
}

func main() {
	sch := schema()
	for _, form := range []string{"arrow", "arrows"} {
		file, err := os.Create(os.Args[1] + "." + form)
		if err != nil {
			panic(err)
		}
		var w interface {
			Write(arrow.RecordBatch) error
			Close() error
		}
		if form == "arrow" {
			w, err = ipc.NewFileWriter(file, ipc.WithSchema(sch))
			if err != nil {
				panic(err)
			}
		} else {
			w = ipc.NewWriter(file, ipc.WithSchema(sch), ipc.WithZstd(), ipc.WithDictionaryDeltas(true))
		}
		for first := 0; first < rows; first += 15 {
			if err := w.Write(record(sch, first, min(first+15, rows))); err != nil {
				panic(err)
			}
		}
		if err := w.Close(); err != nil {
			panic(err)
		}
		file.Close()
	}
}
