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
    guard let flag = bytes.first, flag <= 1 else { throw damaged }
    var found: [(index: UInt32, values: [ArraySlice<UInt8>])] = []
    var offset = 1
    while offset < bytes.count {
      guard let number = BigEndian.number(bytes, at: offset, as: UInt32.self) else { throw damaged }
      offset += 4
      let count = try size(bytes, &offset)
      var values: [ArraySlice<UInt8>] = []
      for _ in 0..<count {
        let size = try size(bytes, &offset)
        guard size <= bytes.count - offset else { throw damaged }
        values.append(bytes[offset..<(offset + size)])
        offset += size
      }
      found.append((number, values))
    }
    return (flag == 0, found)
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
