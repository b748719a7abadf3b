/// An iterator over the rows of all collections, ordered by the ids of the collections and then by key.
struct BuildScan {
  private let transaction: WriteTransaction
  private var infos: [CollectionInfo]
  private var cursor: FamilyCursor?
  private let watermark: [UInt8]

  init(_ infos: [CollectionInfo], after watermark: [UInt8], _ transaction: WriteTransaction) {
    self.transaction = transaction
    self.watermark = watermark
    let first = BigEndian.number(watermark, as: UInt32.self) ?? 0
    self.infos = infos.filter { $0.record.id >= first }.sorted { $0.record.id > $1.record.id }
  }

  mutating func next() throws -> (CollectionInfo, [UInt8], StoredRow)? {
    while let info = infos.last {
      if cursor == nil { cursor = transaction.cursor(range(of: info), in: info.objects) }
      if let (key, value) = try cursor?.next() { return (info, key, try transaction.stored(key, value, info)) }
      infos.removeLast()
      cursor = nil
    }
    return nil
  }

  /// Returns the range of a collection's rows up to a watermark, or `nil` if the watermark is in another collection.
  static func range(of info: CollectionInfo, through watermark: [UInt8]) -> StorageRange? {
    guard watermark.starts(with: BigEndian.bytes(info.record.id)) else { return nil }
    let key = info.record.isOwn ? Array(watermark.dropFirst(4)) : watermark
    return StorageRange(lower: info.range.lower, upper: key + [0])
  }

  private func range(of info: CollectionInfo) -> StorageRange {
    guard let given = Self.range(of: info, through: watermark) else { return info.range }
    return StorageRange(lower: given.upper ?? [], upper: info.range.upper)
  }
}
