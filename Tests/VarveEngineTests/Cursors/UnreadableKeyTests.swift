import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of keys whose merge operands can't be folded: the error names the key, and cursors continue after it.
struct UnreadableKeyTests {
  /// Concatenates, and refuses the operand [0xff].
  private struct Choosy: MergeOperator {
    let name = "test.choosy"

    func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
      value.append(input.existing)
      for index in 0..<input.operandCount {
        let operand = input.operand(index)
        if operand.byteCount == 1, operand.withByteView({ $0[0] == 0xff }) { return false }
        value.append(operand)
      }
      return true
    }
  }

  /// A cursor whose moves may fail.
  private final class Scan {
    private var cursor: EngineCursor

    init(_ cursor: consuming EngineCursor) { self.cursor = cursor }

    /// Returns the error of a move, or `nil` if there is none.
    func error(_ move: (inout EngineCursor) throws(EngineError) -> Void) -> EngineError? {
      do throws(EngineError) { try move(&cursor) } catch { return error }
      return nil
    }

    var isValid: Bool { cursor.isValid }
    var key: [UInt8] { cursor.keyBytes }
    var value: [UInt8] { cursor.valueBytes }
    var unreadableKey: [UInt8]? { cursor.unreadableKey }
  }

  private static let bad = [10, 11, 40, 99]

  private static func engine() throws -> (ObservedEngine, ColumnFamily) {
    var options = SmallEngine.options()
    options.mergeOperators = [Choosy()]
    let observed = try ObservedEngine(options)
    let family = try observed.engine.createFamily("f", options: FamilyOptions(mergeOperator: "test.choosy"))
    for index in 0..<100 {
      try observed.engine.put(ObservedEngine.key(index), [1], in: family)
      if index == 50 { try observed.engine.flush() }
      try observed.engine.merge(ObservedEngine.key(index), bad.contains(index) ? [0xff] : [2], in: family)
    }
    return (observed, family)
  }

  @Test(arguments: [true, false])
  func `a cursor that threw at a key continues after it, in both directions`(_ isForward: Bool) throws {
    let (observed, family) = try Self.engine()
    let engine = observed.engine
    #expect(errorCode { _ = try engine.get(ObservedEngine.key(10), in: family) } == .mergeFailed)
    for takesViews in [false, true] {
      let scan = Scan(try engine.cursor(in: family))
      var found: [[UInt8]] = []
      var failed: [[UInt8]] = []
      var error = scan.error { (cursor) throws(EngineError) in
        if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
      }
      while scan.isValid || error != nil {
        if let error {
          #expect(error.code == .mergeFailed)
          #expect(!scan.isValid)
          let key = scan.unreadableKey ?? []
          #expect(error.message.contains(key.withByteView { $0.printable }))
          // After a view was taken back, the step finds the key a second time.
          if failed.last != key { failed.append(key) }
        } else {
          found.append(scan.key)
          #expect(scan.value == [1, 2])
          #expect(scan.unreadableKey == nil)
        }
        if takesViews, found.count % 7 == 3 { engine.core.background.cursors.takeBack(age: 0) }
        error = scan.error { (cursor) throws(EngineError) in
          if isForward { try cursor.next() } else { try cursor.previous() }
        }
      }
      let good = (0..<100).filter { !Self.bad.contains($0) }.map(ObservedEngine.key)
      #expect(found == (isForward ? good : good.reversed()))
      let bad = Self.bad.map(ObservedEngine.key)
      #expect(failed == (isForward ? bad : bad.reversed()))
    }
    // Flushes and compactions keep the operands, and a delete cures the key.
    try engine.compact()
    #expect(errorCode { _ = try engine.get(ObservedEngine.key(10), in: family) } == .mergeFailed)
    for index in Self.bad { try engine.delete(ObservedEngine.key(index), in: family) }
    #expect(try engine.content()["f"]?.count == 96)
    _ = try observed.close()
  }

  @Test func `a cursor turns round at an unreadable key`() throws {
    let (observed, family) = try Self.engine()
    let scan = Scan(try observed.engine.cursor(in: family))
    #expect(scan.error { (cursor) throws(EngineError) in try cursor.seek(ObservedEngine.key(39)) } == nil)
    #expect(scan.error { (cursor) throws(EngineError) in try cursor.next() }?.code == .mergeFailed)
    #expect(scan.unreadableKey == ObservedEngine.key(40))
    #expect(scan.error { (cursor) throws(EngineError) in try cursor.previous() } == nil)
    #expect(scan.key == ObservedEngine.key(39))
    let code = scan.error { (cursor) throws(EngineError) in try cursor.seekForPrevious(ObservedEngine.key(40)) }?.code
    #expect(code == .mergeFailed)
    #expect(scan.unreadableKey == ObservedEngine.key(40))
    #expect(scan.error { (cursor) throws(EngineError) in try cursor.next() } == nil)
    #expect(scan.key == ObservedEngine.key(41))
    #expect(scan.error { (cursor) throws(EngineError) in try cursor.seekToFirst() } == nil)
    #expect(scan.key == ObservedEngine.key(0))
    _ = try observed.close()
  }

  // MARK: - Copies

  /// Concatenates, and counts the bytes that it is given to copy.
  private final class Counting: MergeOperator {
    let name = "test.counting"
    let copied = Mutex(0)

    func merge(_ input: borrowing MergeInput, into value: inout MergeValue) -> Bool {
      value.append(input.existing)
      return combineAll(input, into: &value)
    }

    func combineAll(_ input: borrowing MergeInput, into operand: inout MergeValue) -> Bool {
      let size = input.operandByteCount
      copied.withLock { $0 += size }
      operand.reserve(size)
      for index in 0..<input.operandCount { operand.append(input.operand(index)) }
      return true
    }
  }

  @Test func `an operator that combines all operands at once copies each byte once, in reads and in flushes`() throws {
    let counting = Counting()
    var options = SmallEngine.options(memtableSize: 1 << 20)
    options.mergeOperators = [counting]
    let observed = try ObservedEngine(options)
    let family = try observed.engine.createFamily("f", options: FamilyOptions(mergeOperator: "test.counting"))
    var expected: [UInt8] = []
    for index in 0..<1_000 {
      let operand = [UInt8](repeating: UInt8(truncatingIfNeeded: index), count: 100)
      expected += operand
      try observed.engine.merge([1], operand, in: family)
    }
    #expect(try observed.engine.get([1], in: family) == expected)
    #expect(counting.copied.withLock { $0 } == expected.count)
    try observed.engine.flush()
    #expect(counting.copied.withLock { $0 } == 2 * expected.count)
    #expect(try observed.engine.get([1], in: family) == expected)
    #expect(counting.copied.withLock { $0 } == 3 * expected.count)
    _ = try observed.close()
  }

  @Test func `operands are not moved by later ones, and large memory is not kept`() {
    var stack = OperandStack()
    var random = SeededRandom(seed: 5)
    for _ in 0..<3 {
      var operands: [[UInt8]] = []
      var bases: [UInt] = []
      for index in 0..<200 {
        let size = index % 40 == 0 ? 300_000 : index % 90 == 1 ? 2_000_000 : random.below(5_000)
        operands.append((0..<size).map { UInt8(truncatingIfNeeded: $0 &* index) })
        operands[index].withByteView { stack.push($0, Trailer(SequenceNumber(UInt64(1_000 - index)), .merge)) }
        if index >= 50 { unsafe bases.append(UInt(bitPattern: stack.fromNewest(index).base)) }
      }
      let (count, size) = (stack.count, stack.byteCount)
      #expect(count == operands.count)
      #expect(size == operands.reduce(0) { $0 + $1.count })
      for index in operands.indices {
        let (newest, oldest) = (stack.fromNewest(index).bytes, stack.fromOldest(index).bytes)
        #expect(newest == operands[index])
        #expect(oldest == operands[operands.count - 1 - index])
      }
      for (index, base) in bases.enumerated() {
        let now = unsafe UInt(bitPattern: stack.fromNewest(50 + index).base)
        #expect(now == base)
      }
      stack.removeAll()
      let isEmpty = stack.isEmpty && stack.byteCount == 0
      #expect(isEmpty)
    }
  }

  @Test func `appends fold over a value and over nothing, and are refused above the largest value`() {
    let append = AppendOperator()
    var operands = OperandStack()
    for operand in [[3], [], [2, 2], [1]] as [[UInt8]] {
      operand.withByteView { operands.push($0, Trailer(SequenceNumber(1), .merge)) }
    }
    let function = MergeFunction(mergeOperator: append)
    var value = MergeValue()
    [UInt8]().withByteView { key in
      var isDone = function.merge(key, existing: nil, &operands, into: &value)
      var bytes = value.view.bytes
      #expect(isDone && bytes == [1, 2, 2, 3])
      isDone = [9].withByteView { function.merge(key, existing: $0, &operands, into: &value) }
      bytes = value.view.bytes
      #expect(isDone && bytes == [9, 1, 2, 2, 3])
      isDone = function.combine(key, &operands, into: &value)
      bytes = value.view.bytes
      #expect(isDone && bytes == [1, 2, 2, 3])
    }
    let count = operands.count
    #expect(count == 4)
  }
}
