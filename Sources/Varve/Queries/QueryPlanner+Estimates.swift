/// How many entries an access has, about: from looks that are bounded, and beyond that from the sizes that the storage knows
/// without reading.
extension QueryPlanner {
  /// Fewer entries than these are read without looking for anything better.
  static var lookMaximum: Int { 64 }
  /// Each look reads so many entries at most. The first that finds an end ends all.
  private static var looks: [Int] { [64, 512, 4_096] }
  /// What an entry is taken to need, where only bytes are known.
  private static var entrySize: Int { 24 }

  /// Of each access about how many entries it has; exact up to the largest look.
  func estimates(_ accesses: [Access]) throws -> [Int] {
    var counts: [Int] = []
    for most in Self.looks {
      counts = try accesses.map { try look($0, most: most) }
      if counts.contains(where: { $0 < most }) { return counts }
    }
    let most = counts[0]
    return try accesses.map { max(most, try size($0)) }
  }

  /// About how many entries there are in all of an index.
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

  /// By bytes: of the same order of magnitude at least.
  private func size(_ access: Access) throws -> Int {
    var size: UInt64 = 0
    for range in access.ranges {
      let (family, range) = try location(range, access.source)
      guard let family else { return 0 }
      size += try transaction.database.backend.approximateSize(of: range, in: family) ?? 0
    }
    return Int(clamping: size) / Self.entrySize
  }

  /// Where the entries of a range are.
  func location(_ range: KeySet.Range, _ source: Access.Source) throws -> (StorageFamily?, StorageRange) {
    guard case .index(let slot) = source else {
      let upper = range.upper.map { info.prefix + $0 } ?? info.range.upper
      return (info.objects, StorageRange(lower: info.prefix + range.lower, upper: upper))
    }
    return (try indexes?.part(slot).readFamily, StorageRange(lower: range.lower, upper: range.upper))
  }
}
