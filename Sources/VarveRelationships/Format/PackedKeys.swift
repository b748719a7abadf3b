/// Many keys in one piece of memory: appended, sorted, and read by their places.
///
/// A cascade has as many keys as rows die; an array of arrays would take twice the memory, and an allocation each.
struct PackedKeys {
  private var bytes: [UInt8] = []
  /// Where each key ends.
  private var ends: [Int] = []
  /// The places of the keys in their order; nil: as they were appended.
  private var order: [Int]?

  var count: Int { ends.count }
  var isEmpty: Bool { ends.isEmpty }
  /// The memory that the keys take.
  var byteCount: Int { bytes.count + ends.count * 8 }

  mutating func append(_ key: ArraySlice<UInt8>) {
    bytes.append(contentsOf: key)
    ends.append(bytes.count)
    order = nil
  }

  mutating func append(_ key: [UInt8]) { append(key[...]) }

  mutating func removeAll() {
    bytes.removeAll(keepingCapacity: true)
    ends.removeAll(keepingCapacity: true)
    order = nil
  }

  /// Keeps the first `count`, in the order in which they were appended.
  mutating func truncate(to count: Int) {
    guard count < ends.count else { return }
    bytes.removeSubrange((count == 0 ? 0 : ends[count - 1])...)
    ends.removeSubrange(count...)
    order = nil
  }

  /// A key by its place in the order.
  subscript(_ index: Int) -> ArraySlice<UInt8> { appended(order?[index] ?? index) }

  /// A key by its place among those that were appended.
  func appended(_ index: Int) -> ArraySlice<UInt8> { bytes[(index == 0 ? 0 : ends[index - 1])..<ends[index]] }

  /// The place among those that were appended of a key in the order.
  func place(_ index: Int) -> Int { order?[index] ?? index }

  /// Those from `index` on, in the order in which they were appended.
  func suffix(from index: Int) -> PackedKeys {
    var copy = PackedKeys()
    for index in index..<count { copy.append(appended(index)) }
    return copy
  }

  // MARK: - Order

  /// Sorts the keys by their bytes. Of equal keys the one that was appended first stays, unless `keepsEqual`; these keep
  /// the order in which they were appended.
  mutating func sort(keepsEqual: Bool = false) {
    if isSorted(strictly: !keepsEqual) { return }
    let shared = sharedPrefix
    // Eight bytes after what all have in common decide nearly every comparison.
    var heads = ends.indices.map { (head: head(appended($0), after: shared), place: $0) }
    heads.sort { left, right in
      if left.head != right.head { return left.head < right.head }
      switch Self.compare(appended(left.place), appended(right.place)) {
      case 0: return left.place < right.place
      case let difference: return difference < 0
      }
    }
    var order: [Int] = []
    order.reserveCapacity(heads.count)
    for (_, place) in heads {
      if !keepsEqual, let last = order.last, appended(last) == appended(place) { continue }
      order.append(place)
    }
    if order.count == count {
      self.order = order
    } else {
      // Those that were there twice are left out for good.
      var copy = PackedKeys()
      for place in order { copy.append(appended(place)) }
      self = copy
    }
  }

  private func isSorted(strictly: Bool) -> Bool {
    for index in ends.indices.dropFirst() {
      let difference = Self.compare(appended(index - 1), appended(index))
      if difference > 0 || (strictly && difference == 0) { return false }
    }
    return true
  }

  private var sharedPrefix: Int {
    guard !ends.isEmpty else { return 0 }
    let first = appended(0)
    var count = first.count
    for index in ends.indices.dropFirst() {
      count = min(count, zip(first.prefix(count), appended(index)).prefix { $0 == $1 }.count)
      if count == 0 { break }
    }
    return count
  }

  private func head(_ key: ArraySlice<UInt8>, after prefix: Int) -> UInt64 {
    var head: UInt64 = 0
    for index in 0..<8 {
      let place = key.startIndex + prefix + index
      head = head << 8 | (place < key.endIndex ? UInt64(key[place]) : 0)
    }
    return head
  }

  /// Below zero where `left` comes first.
  static func compare(_ left: ArraySlice<UInt8>, _ right: ArraySlice<UInt8>) -> Int {
    var (a, b) = (left.startIndex, right.startIndex)
    while a < left.endIndex, b < right.endIndex {
      if left[a] != right[b] { return Int(left[a]) - Int(right[b]) }
      a += 1
      b += 1
    }
    return left.count - right.count
  }

  /// Whether a key is among them. Only after `sort`.
  func contains(_ key: ArraySlice<UInt8>) -> Bool {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      let difference = Self.compare(self[middle], key)
      if difference == 0 { return true }
      if difference < 0 { low = middle + 1 } else { high = middle }
    }
    return false
  }
}
