internal import EngineTestSupport
internal import Synchronization
internal import Varve

/// A snapshot of a `ToyBackend`, which expires by the backend's clock.
final class ToySnapshot: StorageSnapshot {
  let content: ToyContent
  let backend: ToyBackend
  private let begin: UInt64

  /// Creates a snapshot, which the caller has already counted in the state.
  init(_ content: ToyContent, _ backend: ToyBackend) {
    self.content = content
    self.backend = backend
    begin = backend.clock.now()
  }

  deinit {
    let version = content.version
    backend.storage.state.withLock { state in
      let count = state.snapshots[version, default: 1] - 1
      state.snapshots[version] = count > 0 ? count : nil
    }
  }

  var version: CommitVersion { CommitVersion(content.version) }

  func hasFormerFamily(named name: String, besides family: StorageFamily?) -> Bool {
    content.families.contains { $0.key != family?.number && $0.value.name == name }
  }

  /// Throws `.snapshotTooOld` if the snapshot has expired.
  func requireYoung() throws {
    guard let limit = backend.limits.snapshotAgeNanoseconds, backend.clock.now() - begin > limit else { return }
    throw DatabaseError(.snapshotTooOld, "the snapshot is older than \(limit) ns")
  }

  private func rows(_ family: StorageFamily) throws -> ToyRows {
    try backend.begin()
    try requireYoung()
    let (isThere, last) = backend.storage.state.withLock { state in
      (state.applied.families[family.number] != nil, state.applied.version)
    }
    if backend.drawsTooOld(isOld: last > content.version) {
      throw DatabaseError(.snapshotTooOld, "the toy storage forgot version \(content.version)")
    }
    guard isThere else { throw ToyBackend.dropped(family.number) }
    // A family that was created after the snapshot is empty in it.
    return content.families[family.number]?.rows ?? ToyRows()
  }

  func visit(_ key: [UInt8], in family: StorageFamily, _ body: (RawSpan) throws -> Void) throws {
    guard let row = try rows(family).find(key) else { return }
    unsafe try body(row.value.span.bytes)
  }

  func values(of keys: [[UInt8]], in family: StorageFamily) throws -> [[UInt8]?] {
    let rows = try rows(family)
    return keys.map { rows.find($0)?.value }
  }

  func page(
    _ range: StorageRange, in family: StorageFamily, isReverse: Bool, keysOnly: Bool, byteLimit: Int, rowLimit: Int
  ) throws -> StoragePage {
    let rows = try rows(family)
    var rest = rows.indices(in: range)
    var page = StoragePage()
    while !rest.isEmpty, page.count < rowLimit, page.byteCount < byteLimit || page.count == 0 {
      let index = isReverse ? rest.removeLast() : rest.removeFirst()
      page.append(key: rows.rows[index].key, value: keysOnly ? [] : rows.rows[index].value)
    }
    page.isLast = rest.isEmpty
    return page
  }
}
