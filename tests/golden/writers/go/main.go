// Writes a file with parquet-go: see ../../make_writers.py. Arguments: the file, its rows.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
)

type box struct {
	Left *int32 `parquet:"left,optional"`
	Name string `parquet:"name"`
}

type row struct {
	ID    int64            `parquet:"id,delta"`
	Text  *string          `parquet:"text,optional,dict"`
	Half  *float64         `parquet:"half,optional,split"`
	Flag  bool             `parquet:"flag"`
	Tiny  int8             `parquet:"tiny"`
	Large uint64           `parquet:"large"`
	Long  string           `parquet:"long,delta,zstd"`
	Price int64            `parquet:"price,decimal(2:18)"`
	Day   int32            `parquet:"day,date"`
	When  time.Time        `parquet:"when,timestamp(microsecond)"`
	Clock int64            `parquet:"clock,time(microsecond)"`
	Key   uuid.UUID        `parquet:"key,uuid"`
	Data  []byte           `parquet:"data,snappy"`
	Word  string           `parquet:"word,enum"`
	JSON  string           `parquet:"json,json"`
	Bare  []int32          `parquet:"bare"`
	List  []int64          `parquet:"list,list"`
	Box   *box             `parquet:"box,optional"`
	Boxes []box            `parquet:"boxes,list"`
	Map   map[string]int64 `parquet:"map"`
}

func rowOf(n int) row {
	number := int32(n)
	text, half := fmt.Sprintf("text %d", n%5), float64(n)/2
	made := row{
		ID: int64(n), Flag: n%2 == 0, Tiny: int8(n - 20), Large: ^uint64(0) - uint64(n), Long: fmt.Sprintf("a common beginning %d", n),
		Price: int64(n*25 - 100), Day: int32(19_000 + n), When: time.UnixMicro(1_700_000_000_000_000 + int64(n)).UTC(), Clock: int64(n) * 1_000_000,
		Key: uuid.UUID{byte(n), 1, 2, 3}, Data: make([]byte, n%4), Word: "abc"[n%3 : n%3+1], JSON: fmt.Sprintf(`{"n": %d}`, n),
		Bare: make([]int32, n%3), List: make([]int64, n%4), Map: map[string]int64{},
	}
	if n%3 != 0 {
		made.Text = &text
	}
	if n%4 != 0 {
		made.Half = &half
	}
	for at := range made.List {
		made.List[at] = int64(n * at)
	}
	if n%6 != 0 {
		made.Box = &box{Name: fmt.Sprintf("box %d", n)}
		if n%2 == 0 {
			made.Box.Left = &number
		}
	}
	for at := 0; at < n%3; at++ {
		made.Boxes = append(made.Boxes, box{&number, fmt.Sprintf("label %d", at)})
	}
	if n%2 == 1 {
		made.Map["k"] = int64(n)
	}
	return made
}

func main() {
	rows, _ := strconv.Atoi(os.Args[2])
	made := make([]row, rows)
	for n := range made {
		made[n] = rowOf(n)
	}
	if err := parquet.WriteFile(os.Args[1], made, parquet.DataPageVersion(2), parquet.PageBufferSize(1_000)); err != nil {
		panic(err)
	}
}
