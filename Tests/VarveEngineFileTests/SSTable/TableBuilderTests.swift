import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct TableBuilderTests {
  @Test(arguments: [Compression.none, .lz4, .zstd], KeyShape.allCases)
  func `a table verifies and its summary counts its entries`(compression: Compression, shape: KeyShape) throws {
    let seed: UInt64 = 3
    var random = SeededRandom(seed: seed)
    var options = TableOptions.small
    options.compression = compression
    let entries = shape.entries(500, &random)
    let table = try TestTable(entries, options)
    try table.reader.verify()
    let summary = table.summary
    #expect(summary.fileSize == UInt64(table.file.bytes.count))
    #expect(summary.entryCount == UInt64(entries.count), "seed \(seed)")
    #expect(summary.tombstoneCount == UInt64(entries.count { $0.kind == .delete || $0.kind == .singleDelete }))
    #expect(summary.smallestKey == entries[0].key && summary.largestKey == entries[entries.count - 1].key)
    #expect(summary.smallestTrailer == entries[0].trailer)
    #expect(summary.largestTrailer == entries[entries.count - 1].trailer)
    #expect(summary.smallestSequence.value == entries.map(\.sequence).min())
    #expect(summary.largestSequence.value == entries.map(\.sequence).max())
    #expect(summary.rawSize == UInt64(entries.reduce(0) { $0 + $1.key.count + $1.value.count }))
    #expect(summary.properties.keyCount == UInt64(Set(entries.map(\.key)).count))
    #expect(try table.reader.properties() == summary.properties)
  }

  @Test func `a table with tombstones has the estimate of what they hide, and one without has none`() throws {
    for (kind, hidden, expected) in [
      (EntryKind.delete, 77, 77), (.singleDelete, 0, 0), (.put, 77, nil), (.delete, nil, nil),
      (.delete, .max, TableProperties.shadowedMaximum),
    ] as [(EntryKind, UInt64?, UInt64?)] {
      let file = ArrayFile()
      let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 1, options: .small)
      for number in UInt8(0)..<100 {
        try [number].withByteView { key throws(EngineError) in
          try builder.add(key, Trailer(SequenceNumber(5), kind), ByteView())
        }
      }
      var sampled = 0
      let summary = try builder.finish { sample, ranges in
        sampled = sample.count
        return ranges.isEmpty ? hidden : nil
      }
      #expect(sampled == (kind == .put ? 0 : 100))
      #expect(summary.shadowedSize == expected)
      let reader = try TableReader.open(
        file: file, number: FileNumber(1), fileSize: summary.fileSize, cache: BlockCache(capacity: 1 << 20))
      #expect(try reader.properties().shadowedSize == expected)
      try reader.verify()
    }
  }

  @Test func `the estimate of the file's size is within a factor of two`() throws {
    var random = SeededRandom(seed: 8)
    let entries = KeyShape.fixedWithPrefix.entries(2000, &random)
    let file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 1, options: TableOptions())
    for entry in entries {
      try entry.key.withByteView { key throws(EngineError) in
        try entry.value.withByteView { value throws(EngineError) in try builder.add(key, entry.trailer, value) }
      }
    }
    let estimate = builder.estimatedFileSize
    let size = try builder.finish().fileSize
    #expect(estimate > size / 2 && estimate < size * 2, "\(estimate) for \(size)")
  }

  @Test(arguments: [Compression.none, .lz4])
  func `rows of a megabyte and keys of the largest size are read back`(compression: Compression) throws {
    var random = SeededRandom(seed: 4)
    let noise = (0..<1_200_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    let longKey = [UInt8](repeating: 0x78, count: Limits.keySizeMaximum)
    let entries = [
      Entry(key: [], sequence: 9, value: noise), Entry(key: [0x61], sequence: 8),
      Entry(key: [0x62], sequence: 7, value: Array(noise.reversed())),
      Entry(key: Array(longKey.dropLast()), sequence: 6, value: [1]), Entry(key: longKey, sequence: 5, value: noise),
      Entry(key: longKey, sequence: 4, value: []), Entry(key: [0x79], sequence: 3, value: [2]),
    ]
    var options = TableOptions()
    options.compression = compression
    let table = try TestTable(entries, options, cacheSize: 16 << 20)
    try table.reader.verify()
    for entry in entries { #expect(try table.get(entry.key, at: entry.sequence) == entry) }
    let iterator = table.reader.makeIterator(.compaction)
    try iterator.seekToFirst()
    for entry in entries {
      #expect(iterator.entry == entry)
      try iterator.next()
    }
    #expect(!iterator.isValid)
  }

  @Test func `entries above the limits are refused before anything is written`() throws {
    let file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 1, options: TableOptions())
    let key = [UInt8](repeating: 1, count: Limits.keySizeMaximum + 1)
    let error = #expect(throws: EngineError.self) {
      try key.withByteView { view throws(EngineError) in
        try builder.add(view, Trailer(SequenceNumber(1), .put), ByteView())
      }
    }
    #expect(error?.code == .limitExceeded)
    // Only the size of the value is read.
    let error2 = #expect(throws: EngineError.self) {
      try key.withByteView { view throws(EngineError) in
        let value = unsafe ByteView(base: view.base, count: Limits.valueSizeMaximum + 1)
        try builder.add(ByteView(), Trailer(SequenceNumber(1), .put), value)
      }
    }
    #expect(error2?.code == .limitExceeded)
    #expect(builder.entryCount == 0)
  }

  @Test func `entries out of order stop the program`() async {
    await #expect(processExitsWith: .failure) {
      let builder = TableBuilder(file: ArrayFile(), number: FileNumber(1), tableID: 1, options: TableOptions())
      for key in [[UInt8(2)], [UInt8(1)]] {
        try key.withByteView { view throws(EngineError) in
          try builder.add(view, Trailer(SequenceNumber(1), .put), ByteView())
        }
      }
    }
  }

  @Test func `separators lie between their neighbours`() {
    let seed: UInt64 = 12
    var random = SeededRandom(seed: seed)
    for _ in 0..<20_000 {
      let shape = KeyShape.allCases[random.below(4)]
      var left = shape.key(&random)
      var right = shape.key(&random)
      if random.oneIn(4) { left += [0xff, 0xff, UInt8(random.below(256))] }
      if left == right { continue }
      if right.lexicographicallyPrecedes(left) { swap(&left, &right) }
      var writer = ByteWriter()
      left.withByteView { first in right.withByteView { Separator.append(between: first, and: $0, to: &writer) } }
      let separator = writer.bytes
      #expect(!separator.lexicographicallyPrecedes(left), "seed \(seed): \(left) \(separator) \(right)")
      #expect(separator.lexicographicallyPrecedes(right), "seed \(seed): \(left) \(separator) \(right)")
      #expect(separator.count <= max(left.count, right.count))
    }
  }
}
