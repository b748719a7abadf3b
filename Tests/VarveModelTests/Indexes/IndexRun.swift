import EngineTestSupport
import Foundation
import Testing
import VarveTestSupport

@testable import ObjectFixtures
@testable import Varve

/// The kinds of steps of the index model.
enum IndexStep: Int, CaseIterable, Sendable {
  case persist, collide, modify, delete, deleteRange, truncate, nested, nestedUndone, batch, look, lookInside, follow,
    reopen, rebuild
}

/// A run of random changes of volumes, in a database with indexes and in a dictionary: every index lookup must return
/// the same.
final class IndexRun {
  private let site: StorageSite
  private var random: SeededRandom
  private var database: Database
  /// Whether the database was opened with the other format.
  private var isOther = false
  /// A reader as in another process, which continues over reopenings by a program with the same format.
  private var follower: Database?
  /// Whether the indexes contain all rows.
  private var isWarm = true
  private var volumes: [Int: Volume] = [:]
  private(set) var counts = StepCounts<IndexStep>()
  private(set) var trace: [String] = []

  init(_ kind: StorageKind, seed: UInt64) throws {
    site = try StorageSite(kind)
    random = SeededRandom(seed: seed)
    database = try Database.open(site.open(), path: "indexes") { VolumeFormat.self }
  }

  func close() throws {
    try endFollower()
    try database.close()
  }

  private var first: Store<VolumeFormat> { Store(in: database) }
  private var other: Store<OtherVolumeFormat> { Store(in: database) }

  func run(_ count: Int) throws {
    for _ in 0..<count { try step() }
    try reopen()
    try lookEverywhere()
    // Every entry belongs to a row, and every row has its entries.
    try database.core.read { tx in if isOther { try verify(other, tx) } else { try verify(first, tx) } }
  }

  private func verify<Format: StoreFormat>(_ store: Store<Format>, _ tx: ReadTransaction) throws {
    let differences = try store.indexDifferences(in: tx)
    #expect(differences.isEmpty, "\(differences.prefix(3))")
  }

  private func step() throws {
    switch random.below(100) {
    case 0..<40: try write(.persist) { [self] tx in try persist(in: tx) }
    case 40..<52: try write(.modify) { [self] tx in try modify(in: tx) }
    case 52..<58: try write(.delete) { [self] tx in try delete(in: tx) }
    case 58..<59: try write(.deleteRange) { [self] tx in try deleteRange(in: tx) }
    case 59..<60 where random.oneIn(4): try write(.truncate) { [self] tx in try truncate(in: tx) }
    case 60..<68: try write(.batch) { [self] tx in try several(in: tx) }
    case 68..<73: try write(.nested) { [self] tx in try nested(isUndone: false, in: tx) }
    case 73..<79: try write(.nestedUndone) { [self] tx in try nested(isUndone: true, in: tx) }
    case 79..<97: try database.core.read { [self] tx in try look(.look, in: tx) }
    case 97..<98: try follow()
    case 98..<99: try reopen()
    default: try rebuild()
    }
  }

  /// Runs a transaction, which is undone by an error other than a step's.
  private func write(_ step: IndexStep, _ body: (WriteTransaction) throws -> Void) throws {
    counts[step] += 1
    try database.core.write(WriteTerms()) { tx in
      try body(tx)
      if isWarm, random.oneIn(3) { try look(.lookInside, in: tx) }
    }
  }

  // MARK: - Changes

  private static let titles = ["", "Emma", "Emm", "Emma\0", "Optics", "Älg", "a", "zz", "日本"]

  private func volume(_ id: Int) -> Volume {
    Volume(
      id: id, title: Self.titles[random.below(Self.titles.count)], year: 1990 + random.below(25),
      isbn: random.oneIn(3) ? nil : "isbn \(random.below(60))",
      tags: (0..<random.below(4)).map { _ in ["love", "sea", "village", "l"][random.below(4)] },
      codes: random.oneIn(3) ? nil : Set((0..<random.below(3)).map { _ in random.below(200) }),
      shelf: random.oneIn(2) ? .fiction : .science,
      home: random.oneIn(2) ? nil : Volume.Home(city: ["Bath", "London"][random.below(2)]),
      price: Decimal(random.below(5)) / 2, weight: random.oneIn(8) ? .nan : Double(random.below(3)))
  }

  /// Returns whether a unique index of the open format refuses the volume.
  private func collides(_ volume: Volume) -> Bool {
    volumes.values.contains { present in
      guard present.id != volume.id else { return false }
      let hasSameISBN = volume.isbn != nil && present.isbn == volume.isbn
      let sharesCode = !(volume.codes ?? []).isDisjoint(with: present.codes ?? [])
      return isOther ? hasSameISBN : hasSameISBN || sharesCode
    }
  }

  private func store(_ volume: Volume, _ tx: WriteTransaction) throws {
    if isOther { try other.persist(volume, in: tx) } else { try first.persist(volume, in: tx) }
  }

  private func persist(in tx: WriteTransaction) throws { try change(to: volume(random.below(80)), tx) }

  private func modify(in tx: WriteTransaction) throws {
    guard var volume = any() else { return }
    let drawn = self.volume(volume.id)
    switch random.below(4) {
    case 0: volume.title = drawn.title
    case 1: volume.isbn = drawn.isbn
    case 2: volume.tags = drawn.tags
    default: volume.year = drawn.year
    }
    try change(to: volume, tx)
  }

  private func any() -> Volume? { volumes.keys.sorted().randomElement(using: &random).flatMap { volumes[$0] } }

  private func change(to volume: Volume, _ tx: WriteTransaction) throws {
    trace.append("\(volume)")
    guard collides(volume) else {
      try store(volume, tx)
      volumes[volume.id] = volume
      return
    }
    counts[.collide] += 1
    // The other format defers the check to the end, and an index being built refuses nothing.
    if isOther || !isWarm { return }
    let code = errorCode { try store(volume, tx) }
    #expect(code == .notUnique)
  }

  private func delete(in tx: WriteTransaction) throws {
    guard let volume = any() else { return }
    trace.append("delete \(volume.id)")
    if isOther { try other.delete(volume.id, in: tx) } else { try first.delete(volume.id, in: tx) }
    volumes[volume.id] = nil
  }

  private func deleteRange(in tx: WriteTransaction) throws {
    let lower = random.below(80)
    let range = lower..<(lower + random.below(30))
    trace.append("delete \(range)")
    _ = isOther ? try other.delete(range, in: tx) : try first.delete(range, in: tx)
    for id in range { volumes[id] = nil }
  }

  private func truncate(in tx: WriteTransaction) throws {
    trace.append("truncate")
    _ = isOther ? try other.delete(..., in: tx) : try first.delete(..., in: tx)
    volumes = [:]
  }

  private func several(in tx: WriteTransaction) throws {
    for _ in 0..<(1 + random.below(12)) {
      switch random.below(4) {
      case 0: try modify(in: tx)
      case 1: try delete(in: tx)
      default: try persist(in: tx)
      }
    }
  }

  private struct Undone: Error {}

  private func nested(isUndone: Bool, in tx: WriteTransaction) throws {
    try several(in: tx)
    let before = volumes
    do {
      try database.core.write(WriteTerms()) { tx in
        try several(in: tx)
        if isUndone { throw Undone() }
      }
    } catch is Undone {
      trace.append("undone")
      volumes = before
    }
    try several(in: tx)
  }

  // MARK: - Reopening

  private func reopen() throws {
    counts[.reopen] += 1
    let hadOther = isOther
    try database.close()
    // Rows that collide would make the other format's unique index unusable, which another suite covers.
    let codes = volumes.values.flatMap { $0.codes ?? [] }
    isOther = random.oneIn(2) && (!hadOther || Set(codes).count == codes.count) ? !hadOther : hadOther
    if hadOther, !isOther, Set(codes).count != codes.count { isOther = true }
    trace.append("reopen \(isOther)")
    if isOther != hadOther { try endFollower() }
    if isOther {
      database = try Database.open(site.open(), path: "indexes") { OtherVolumeFormat.self }
    } else {
      database = try Database.open(site.open(), path: "indexes") { VolumeFormat.self }
    }
    // The changes are made during the build.
    isWarm = false
    for _ in 0..<random.below(4) { try write(.batch) { [self] tx in try several(in: tx) } }
    if isOther { try warm(other) } else { try warm(first) }
    isWarm = true
  }

  private func warm<Format: StoreFormat>(_ store: Store<Format>) throws { try store.warm() }

  private func rebuild() throws {
    counts[.rebuild] += 1
    if isOther { try other.rebuild(\.tags) } else { try first.rebuild(\.isbn) }
  }

  // MARK: - A reader in another process

  /// Compares all rows and all index entries that a follower sees with the committed ones.
  private func follow() throws {
    counts[.follow] += 1
    let follower = try self.follower ?? openFollower()
    self.follower = follower
    if isOther {
      try compare(follower, Store<OtherVolumeFormat>(in: follower)) { store, tx in try look(store, tx) }
    } else {
      try compare(follower, Store<VolumeFormat>(in: follower)) { store, tx in try look(store, tx) }
    }
    if random.oneIn(4) { try endFollower() }
  }

  private func openFollower() throws -> Database {
    var options = DatabaseOptions()
    options.follows = true
    let backend = try site.follow()
    return if isOther {
      try Database.open(backend, path: "indexes", options: options) { OtherVolumeFormat.self }
    } else {
      try Database.open(backend, path: "indexes", options: options) { VolumeFormat.self }
    }
  }

  private func endFollower() throws {
    try follower?.close()
    follower = nil
  }

  private func compare<Format: StoreFormat>(
    _ follower: Database, _ store: Store<Format>, _ look: (Store<Format>, ReadTransaction) throws -> Void
  ) throws where Format.Instance == Volume, Format.Identifier == Int {
    try follower.core.read { tx in
      let found = try Array(store.load(..., in: tx)).map(\.equatable)
      #expect(found == volumes.values.map(\.equatable).sorted { $0.id < $1.id }, "the rows that a follower sees")
      try verify(store, tx)
      try look(store, tx)
    }
  }

  // MARK: - Lookups

  private func lookEverywhere() throws {
    try database.core.read { [self] tx in for _ in 0..<60 { try look(.look, in: tx) } }
  }

  private func look(_ step: IndexStep, in tx: ReadTransaction) throws {
    counts[step] += 1
    if isOther { try look(other, tx) } else { try look(first, tx) }
  }

  private func look(_ first: Store<VolumeFormat>, _ tx: ReadTransaction) throws {
    switch random.below(9) {
    case 0: try compare(first, \.title, tx) { [Compound($0.title)] }
    case 1: try compare(first, \.byYear, tx) { [Compound($0.year, $0.title)] }
    case 2: try compare(first, \.byShelf, tx) { [Compound($0.shelf, Descending($0.year))] }
    case 3: try compare(first, \.city, tx) { [Compound($0.home?.city)] }
    case 4: try compare(first, \.weight, tx) { $0.weight.isNaN ? [] : [Compound($0.weight)] }
    case 5: try compare(first, \.isbn, tx) { [Compound($0.isbn)] }
    case 6: try compare(first, \.tags, tx) { $0.tags }
    case 7: try compare(first, \.codes, tx) { Array($0.codes ?? []) }
    default:
      try compare(first, \.recent, tx) { $0.year >= 2000 && $0.shelf == .science ? [Compound($0.year)] : [] }
      try compare(first, \.direct, tx) { [Compound($0.title)] }
    }
  }

  private func look(_ other: Store<OtherVolumeFormat>, _ tx: ReadTransaction) throws {
    switch random.below(8) {
    case 0: try compare(other, \.title, tx) { [Compound($0.year)] }
    case 1: try compare(other, \.byYear, tx) { [Compound($0.year, $0.title)] }
    case 2: try compare(other, \.byShelf, tx) { [Compound(Descending($0.shelf), $0.year)] }
    case 3: try compare(other, \.home, tx) { [Compound($0.home?.city)] }
    case 4: try compare(other, \.late, tx) { [Compound($0.isbn)] }
    case 5: try compare(other, \.tags, tx) { $0.tags }
    case 6: try compare(other, \.codes, tx) { Array($0.codes ?? []) }
    default: try compare(other, \.recent, tx) { $0.year >= 1990 ? [Compound($0.year)] : [] }
    }
  }

  /// Compares all of an index, a range of it and one value of it, in both directions. Values are in the order of their
  /// encoded keys, which other suites check.
  private func compare<Format: StoreFormat, Index: StoreIndex>(
    _ store: Store<Format>, _ path: KeyPath<Format, Index>, _ tx: ReadTransaction,
    _ values: (Volume) -> [Index.Value]
  ) throws where Format.Instance == Volume, Format.Identifier == Int {
    var entries: [(key: [UInt8], value: Index.Value, id: Int)] = []
    for volume in volumes.values {
      for value in Set(values(volume)) { entries.append((try value.encoded(), value, volume.id)) }
    }
    entries.sort { ByteOrder.compare($0.key, $1.key) != 0 ? ByteOrder.precedes($0.key, $1.key) : $0.id < $1.id }
    let isDescending = random.oneIn(2)
    let limit = random.oneIn(3) ? random.below(6) : nil
    func expected(_ isInside: ([UInt8]) -> Bool) -> [Volume] {
      let inside = entries.filter { isInside($0.key) }
      var seen: Set<Int> = []
      let ids = (isDescending ? inside.reversed() : inside).map(\.id).filter { seen.insert($0).inserted }
      return ids.prefix(limit ?? .max).compactMap { volumes[$0] }
    }
    // The comparison replaces NaN, which does not equal itself.
    func same(_ found: [Volume], _ wanted: [Volume], _ what: String) {
      let (found, wanted) = (found.map(\.equatable), wanted.map(\.equatable))
      if found == wanted { return }
      Issue.record("\(path), \(what): found \(found.map(\.id)), not \(wanted.map(\.id))")
    }
    let all = try Array(store.load(.all, from: path, descending: isDescending, limit: limit, in: tx))
    same(all, expected { _ in true }, "all")
    guard let one = entries.randomElement(using: &random), let two = entries.randomElement(using: &random) else {
      return
    }
    let (lower, upper) = ByteOrder.precedes(two.key, one.key) ? (two, one) : (one, two)
    let range = KeyInterval(from: .excluding(lower.value), to: .including(upper.value))
    let some = try Array(store.load(.range(range), from: path, descending: isDescending, limit: limit, in: tx))
    same(
      some,
      expected { ByteOrder.precedes(lower.key, $0) && !ByteOrder.precedes(upper.key, $0) },
      "\(lower.value) to \(upper.value)")
    let found: StoreCursor<Volume> = try store.load(
      .value(one.value), from: path, descending: isDescending, limit: limit, in: tx)
    same(try Array(found), expected { $0 == one.key }, "\(one.value)")
    #expect(try store.count(.value(one.value), from: path, in: tx) == entries.count { $0.key == one.key })
  }
}

extension Volume {
  /// A copy without NaN, which does not equal itself.
  fileprivate var equatable: Volume {
    var copy = self
    if weight.isNaN { copy.weight = -1 }
    return copy
  }
}
