internal import Foundation

/// A node of a tree of runs: the slots of a leaf are runs, those of other nodes are nodes.
///
/// ```
///  slot    key: a separator │ count: the entries below it │ child, or nothing in a leaf │ mark: changed
/// ```
/// The key of a run is at or before its first entry, and after the last entry of the run before it. The key of a node
/// is that of its first slot. The keys of a node are in one array, so that copying a node copies three arrays.
///
/// A node is changed only while one tree alone has it; `RunTree` copies the others.
@safe
final class RunNode: @unchecked Sendable {
  /// The maximum number of slots, which are as many as the bits of `marks`.
  static let slotMaximum = 64

  private struct State {
    var keyBytes: [UInt8] = []
    var keyEnds: [UInt32] = []
    var counts: [Int] = []
    var children: [RunNode] = []
    var marks: UInt64 = 0
  }

  // A field of a class would be checked for exclusive access with each entry that is counted.
  private let state: StatePointer<State>

  /// A slot as a value, for changes of the structure.
  struct Slot {
    var key: [UInt8]
    var count: Int
    var child: RunNode?
    var isMarked: Bool
  }

  private init(_ state: State) { self.state = StatePointer(state) }

  deinit { state.destroy() }

  /// Creates a node of at least one and at most `slotMaximum` slots.
  convenience init(_ slots: ArraySlice<Slot>) {
    var state = State()
    state.keyBytes.reserveCapacity(slots.reduce(0) { $0 + $1.key.count })
    state.keyEnds.reserveCapacity(slots.count)
    state.counts.reserveCapacity(slots.count)
    for (index, slot) in slots.enumerated() {
      state.keyBytes.append(contentsOf: slot.key)
      state.keyEnds.append(UInt32(state.keyBytes.count))
      state.counts.append(slot.count)
      if let child = slot.child { state.children.append(child) }
      if slot.isMarked { state.marks |= 1 << UInt64(index) }
    }
    self.init(state)
  }

  /// Returns a copy. The arrays are copied with their first change.
  func copy() -> RunNode { RunNode(state.pointee) }

  /// Divides slots into as few nodes as possible, of about the same size.
  static func nodes(_ slots: [Slot]) -> [RunNode] {
    if slots.isEmpty { return [] }
    let count = (slots.count + slotMaximum - 1) / slotMaximum
    return (0..<count).map { RunNode(slots[(slots.count * $0 / count)..<(slots.count * ($0 + 1) / count)]) }
  }

  // MARK: - Slots

  private var keyEnds: [UInt32] { @inline(__always) _read { yield state.pointee.keyEnds } }
  /// The entries below each slot.
  private(set) var counts: [Int] {
    @inline(__always) _read { yield state.pointee.counts }
    @inline(__always) _modify { yield &state.pointee.counts }
  }
  /// The nodes of the slots, or none in a leaf.
  var children: [RunNode] {
    @inline(__always) _read { yield state.pointee.children }
    @inline(__always) _modify { yield &state.pointee.children }
  }
  private var marks: UInt64 {
    @inline(__always) get { state.pointee.marks }
    @inline(__always) set { state.pointee.marks = newValue }
  }

  var isLeaf: Bool { children.isEmpty }
  var slotCount: Int { counts.count }
  var total: Int { counts.reduce(0, +) }
  var hasMarks: Bool { marks != 0 }

  func isMarked(_ slot: Int) -> Bool { marks & 1 << UInt64(slot) != 0 }

  func key(_ slot: Int) -> [UInt8] { Array(state.pointee.keyBytes[keyStart(slot)..<Int(keyEnds[slot])]) }

  private func keyStart(_ slot: Int) -> Int { slot == 0 ? 0 : Int(keyEnds[slot - 1]) }

  var slots: [Slot] {
    counts.indices.map {
      Slot(key: key($0), count: counts[$0], child: isLeaf ? nil : children[$0], isMarked: isMarked($0))
    }
  }

  /// Returns the last slot whose key is at or before `key`, or with `isStrict` before it. The first slot takes the keys
  /// before its own, too.
  func slot(of key: RawSpan, isStrict: Bool = false) -> Int {
    unsafe key.withUnsafeBytes { key in
      unsafe state.pointee.keyBytes.withUnsafeBytes { bytes in
        let keyEnds = keyEnds
        var low = 1
        var high = counts.count
        while low < high {
          let middle = (low + high) / 2
          let start = Int(keyEnds[middle - 1])
          let size = Int(keyEnds[middle]) - start
          // Safety: the ends are those of the keys in `bytes`. No key but the first is empty.
          var order = 0
          let shared = min(size, key.count)
          if shared > 0, let left = bytes.baseAddress, let right = key.baseAddress {
            order = unsafe Int(memcmp(left + start, right, shared))
          }
          if order == 0 { order = size - key.count }
          if order < 0 || (order == 0 && !isStrict) { low = middle + 1 } else { high = middle }
        }
        return low - 1
      }
    }
  }

  func slot(of key: [UInt8], isStrict: Bool = false) -> Int { unsafe slot(of: key.span.bytes, isStrict: isStrict) }

  // MARK: - Changes

  /// Adds to the count of a slot, and marks it.
  @inline(__always)
  func add(_ number: Int, to slot: Int) {
    counts[slot] &+= number
    marks |= 1 << UInt64(slot)
  }

  /// Sets the marks of a node whose marked children were cleared.
  func clearMarks() { marks = 0 }
}
