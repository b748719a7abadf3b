/// What a batch or a transaction has written to a family and not committed, as a reader of its own sees it:
/// a memtable above all others, up to the entry that was the last when the reader was made.
struct OwnWrites {
  let table: MemTable
  let last: SequenceNumber
}
