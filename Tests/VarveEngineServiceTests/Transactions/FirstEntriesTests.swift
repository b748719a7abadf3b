import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the first entries of a batch, which are stored without trees, and of what moves them into trees.
struct FirstEntriesTests {
  private static func makeEngine() throws -> Engine { try IndexedWriteBatchTests.makeEngine() }

  private static func isListed(_ batch: borrowing IndexedWriteBatch) -> Bool { batch.first.isOpen }

  private static func has(_ key: [UInt8], _ batch: borrowing IndexedWriteBatch, _ column: ColumnFamily) throws -> Bool {
    try unsafe batch.contains(key.span.bytes, in: column)
  }

  @Test func `a batch of eight puts and deletes over four families is committed without a tree`() throws {
    let engine = try Self.makeEngine()
    var columns = [engine.defaultFamily]
    for name in ["a", "b", "c"] { columns.append(try engine.createFamily(name)) }
    for column in columns { try engine.put([1], [0], in: column) }
    var batch = IndexedWriteBatch(engine)
    for (index, column) in columns.enumerated() {
      try batch.put([2], [UInt8(index)], in: column)
      try batch.delete([1], in: column)
    }
    #expect(Self.isListed(batch) && batch.families.allSatisfy { $0.table === engine.core.pipeline.memory.empty })
    #expect(batch.count == 8)
    for (index, column) in columns.enumerated() {
      #expect(try batch.get([2], in: column) == [UInt8(index)])
      #expect(try batch.get([1], in: column) == nil && !Self.has([1], batch, column))
      #expect(batch.decides([1], in: column) && batch.decides([2], in: column) && !batch.decides([3], in: column))
      #expect(try engine.get([1], in: column) == [0])
    }
    let written = try batch.packed(room: 100)
    #expect(written.count == 8 && written.byteCount == batch.byteCount)
    try engine.write(batch)
    #expect(Self.isListed(batch) == true)
    for (index, column) in columns.enumerated() {
      #expect(try engine.get([2], in: column) == [UInt8(index)] && engine.get([1], in: column) == nil)
    }
  }

  @Test func `the last entry of a key that is written again replaces the earlier ones, whatever their kinds`() throws {
    let engine = try Self.makeEngine()
    try engine.put([1], [0])
    var batch = IndexedWriteBatch(engine)
    try batch.put([1], [1, 1, 1])
    try batch.put([2], [2])
    try batch.put([3], [3, 3])
    try batch.delete([2])
    try batch.put([1], [])
    try batch.put([3], [UInt8](repeating: 4, count: 300))
    for round in UInt8(0)..<100 { try batch.put([4], [round]) }
    #expect(Self.isListed(batch) && batch.count == 4 && batch.first.count == 4)
    #expect(try batch.get([1]) == [] && batch.get([2]) == nil && batch.get([4]) == [99])
    #expect(try batch.get([3]) == [UInt8](repeating: 4, count: 300))
    #expect(try batch.packed().byteCount == batch.byteCount)
    try engine.write(batch)
    #expect(try engine.get([1]) == [] && engine.get([2]) == nil && engine.get([4]) == [99])
  }

  private enum Change: CaseIterable {
    case ninth, large, range, operand, singleDelete, stamped, savepoint, scratch, cursor, view, look
  }

  @Test(arguments: Change.allCases)
  private func `an operation that a list can't do moves its entries into trees unchanged`(change: Change) throws {
    let engine = try Self.makeEngine()
    let other = try engine.createFamily("other")
    try engine.put([5], [0])
    var batch = IndexedWriteBatch(engine)
    for key in UInt8(0)..<4 { try batch.put([key], [key]) }
    try batch.put([1], [11])
    try batch.delete([2])
    try batch.put([7], [7], in: other)
    var expected: [[UInt8]?] = [[0], [11], nil, [3], nil, [0]]
    #expect(Self.isListed(batch) == true)
    switch change {
    case .ninth:
      for key in UInt8(4)..<8 {
        try batch.put([key], [key])
        #expect(Self.isListed(batch) == (key < 7))
      }
      expected[4] = [4]
      expected[5] = [5]
    case .large:
      try batch.put([4], [UInt8](repeating: 4, count: 5_000))
      expected[4] = [UInt8](repeating: 4, count: 5_000)
    case .range:
      try batch.deleteRange(from: [1], to: [3])
      expected[1] = nil
    case .operand:
      try batch.merge([0], [9])
      expected[0] = [0, 9]
    case .singleDelete:
      try batch.singleDelete([3])
      expected[3] = nil
    case .stamped:
      try batch.putStamped([4], [UInt8](repeating: 0, count: 8), at: .value(0))
      expected[4] = StampLocation.pending
    case .savepoint:
      batch.setSavepoint()
      #expect(Self.isListed(batch) == true)
      try batch.put([0], [9])
      try batch.put([4], [9])
      #expect(try batch.get([0]) == [9])
      try batch.rollbackToSavepoint()
    case .scratch: try batch.markAsScratch(engine.createFamily("scratch"))
    case .cursor:
      var cursor = try batch.cursor()
      try cursor.seekToLast()
      #expect(cursor.keyBytes == [5])
    case .view:
      var cursor = try batch.view(of: other).cursor()
      try cursor.seekToFirst()
      #expect(cursor.keyBytes == [7])
    case .look: #expect(try batch.first(from: [2], to: nil)?.key == [3])
    }
    #expect(Self.isListed(batch) == false)
    for key in UInt8(0)..<6 { #expect(try batch.get([key]) == expected[Int(key)], "\(key)") }
    #expect(try batch.get([7], in: other) == [7])
    let written = try batch.makeBatch(folding: .none)
    #expect(written.count == batch.count && written.byteCount == batch.byteCount)
    try engine.write(batch)
    for key in UInt8(0)..<6 where key != 4 || change != .stamped {
      #expect(try engine.get([key]) == expected[Int(key)], "\(key)")
    }
    #expect(try engine.get([7], in: other) == [7])
  }

  @Test func `an entry after a savepoint is undone with it, also in a batch that was empty`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    batch.setSavepoint()
    try batch.put([1], [1])
    try batch.rollbackToSavepoint()
    #expect(batch.count == 0)
    #expect(try batch.get([1]) == nil)
    // A savepoint that ends before the next entry does not turn the list into trees.
    var second = IndexedWriteBatch(engine)
    try second.put([1], [1])
    second.setSavepoint()
    try second.rollbackToSavepoint()
    second.setSavepoint()
    try second.releaseSavepoint()
    try second.put([2], [2])
    #expect(Self.isListed(second) && second.count == 2)
  }

  @Test func `an entry that is too large is refused, and the list stays`() throws {
    let engine = try Self.makeEngine()
    var batch = IndexedWriteBatch(engine)
    try batch.put([1], [1])
    #expect(throws: EngineError.self) { try batch.put([UInt8](repeating: 0, count: Limits.keySizeMaximum + 1), []) }
    #expect(Self.isListed(batch) && batch.count == 1)
    #expect(try batch.get([1]) == [1])
  }
}
