/// Estimates the number of entries of an access: by bounded reads, and beyond their limit from the sizes that the
/// storage knows without reading.
extension QueryPlanner {
  /// The number of entries below which an access is used without looking for a better one.
  static var lookMaximum: Int { 64 }
  /// The maximum numbers of entries of successive reads. The first read that reaches the end of an access is the last.
  private static var looks: [Int] { [64, 512, 4_096] }
  /// The assumed size of an entry, if only the number of bytes is known.
  private static var entrySize: Int { 24 }

  /// Returns the approximate number of entries of each access, which is exact up to the limit of the largest read.
  func estimates(_ accesses: [Access]) throws -> [Int] {
    var counts: [Int] = []
    for most in Self.looks {
      counts = try accesses.map { try look($0, most: most) }
      if counts.contains(where: { $0 < most }) { return counts }
    }
    let most = counts[0]
    return try accesses.map { max(most, try size($0)) }
  }

  /// Returns the approximate number of all entries of an index.
  func total(of access: Access) throws -> Int {
    let most = Self.looks[Self.looks.count - 1]
    let count = try look(access, most: most)
    return count < most ? count : max(most, try size(access))
  }

  private func look(_ access: Access, most: Int) throws -> Int {
    var count = 0
    for range in access.ranges {
      let (family, range) = try location(range, access.source)
      guard let family else { return 0 }
      let page = try transaction.view(of: family).page(
        range, in: family, isReverse: false, keysOnly: true, byteLimit: .max, rowLimit: most - count)
      count += page.count
      if count >= most { break }
    }
    return count
  }

  /// Returns the number of entries by their size in bytes, which is at least of the right order of magnitude.
  private func size(_ access: Access) throws -> Int {
    var size: UInt64 = 0
    for range in access.ranges {
      let (family, range) = try location(range, access.source)
      guard let family else { return 0 }
      size += try transaction.database.backend.approximateSize(of: range, in: family) ?? 0
    }
    return Int(clamping: size) / Self.entrySize
  }

  /// Returns the family and the storage range of the entries of a range.
  func location(_ range: KeySet.Range, _ source: Access.Source) throws -> (StorageFamily?, StorageRange) {
    guard case .index(let slot) = source else {
      let upper = range.upper.map { info.prefix + $0 } ?? info.range.upper
      return (info.objects, StorageRange(lower: info.prefix + range.lower, upper: upper))
    }
    return (try indexes?.part(slot).readFamily, StorageRange(lower: range.lower, upper: range.upper))
  }
}
