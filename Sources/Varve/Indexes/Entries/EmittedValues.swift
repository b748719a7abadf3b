/// The values of a row in the indexes of its collection, as stored in the part `emitted` (`IndexExtension`).
enum EmittedValues {
  /// Encodes the values. `plans` are the indexes by their slots.
  static func write(_ keys: IndexKeys, isIndexed: Bool, _ plans: [ErasedIndex], to bytes: inout [UInt8]) {
    bytes.removeAll(keepingCapacity: true)
    bytes.append(isIndexed ? 0 : 1)
    var position = 0
    let list = keys.keys
    while position < list.count {
      let index = list[position].index
      var end = position
      while end < list.count, list[end].index == index { end += 1 }
      let number = plans[index].number
      var shift: UInt32 = 32
      while shift > 0 {
        shift -= 8
        bytes.append(UInt8(truncatingIfNeeded: number >> shift))
      }
      Varint.append(UInt64(end - position), to: &bytes)
      for key in list[position..<end] {
        Varint.append(UInt64(key.end - key.start), to: &bytes)
        keys.withBytes(key) { bytes.append($0) }
      }
      position = end
    }
  }

  /// Decodes the values of the existing indexes, in the order of their slots. Returns whether the row is in the
  /// indexes. Throws `.corruption`.
  static func read(_ bytes: [UInt8], _ plans: [ErasedIndex], into keys: inout IndexKeys) throws -> Bool {
    keys.removeAll()
    let (isIndexed, groups) = try groups(bytes)
    // The values of dropped indexes are ignored.
    let found = groups.compactMap { number, values in
      plans.firstIndex { $0.number == number }.map { (index: $0, values: values) }
    }
    for (index, values) in found.sorted(by: { $0.index < $1.index }) {
      for value in values { keys.append(value, hasNil: false, of: index) }
    }
    return isIndexed
  }

  /// Returns all values by the numbers of their indexes, and whether the row is in the indexes. Throws `.corruption`.
  static func groups(
    _ bytes: [UInt8]
  ) throws -> (isIndexed: Bool, values: [(index: UInt32, values: [ArraySlice<UInt8>])]) {
    var found: [(index: UInt32, values: [ArraySlice<UInt8>])] = []
    let isIndexed = try visit(bytes) { number, value in
      if let number { found.append((number, [])) }
      if let value { found[found.count - 1].values.append(value) }
    }
    return (isIndexed, found)
  }

  /// Returns the values of one index. Throws `.corruption`.
  static func values(of index: UInt32, in bytes: [UInt8]) throws -> [ArraySlice<UInt8>] {
    var found: [ArraySlice<UInt8>] = []
    var isOfIndex = false
    _ = try visit(bytes) { number, value in
      if let number { isOfIndex = number == index }
      if isOfIndex, let value { found.append(value) }
    }
    return found
  }

  /// Calls `body` with the number of each index, and then with each of its values. Returns whether the row is in the
  /// indexes.
  private static func visit(
    _ bytes: [UInt8], _ body: (_ index: UInt32?, _ value: ArraySlice<UInt8>?) -> Void
  ) throws -> Bool {
    guard let flag = bytes.first, flag <= 1 else { throw damaged }
    var offset = 1
    while offset < bytes.count {
      guard let number = BigEndian.number(bytes, at: offset, as: UInt32.self) else { throw damaged }
      offset += 4
      body(number, nil)
      for _ in 0..<(try size(bytes, &offset)) {
        let size = try size(bytes, &offset)
        guard size <= bytes.count - offset else { throw damaged }
        body(nil, bytes[offset..<(offset + size)])
        offset += size
      }
    }
    return flag == 0
  }

  private static func size(_ bytes: [UInt8], _ offset: inout Int) throws -> Int {
    do {
      guard let size = Int(exactly: try unsafe Varint.read(bytes.span.bytes, &offset)) else { throw damaged }
      return size
    } catch { throw damaged }
  }

  private static var damaged: DatabaseError {
    DatabaseError(.corruption, "what a row has emitted to its indexes is damaged")
  }
}
