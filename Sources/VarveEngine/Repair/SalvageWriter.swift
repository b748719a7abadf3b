/// Writes entries that come in any order into a new database. The newest entry of each key wins.
///
/// # Data kept for each family until the end
/// - *trailers*: for each key the trailer of its newest put or delete so far, which the family has.
/// - *operands*: for each key the merge operands so far, with their sequences.
/// - the range tombstones, in memory.
///
/// `finish` deletes the keys that a newer range tombstone covers, and writes the operands that are newer than the entry
/// that they are folded over, in their order.
final class SalvageWriter {
  private struct Output {
    let family: ColumnFamily
    let trailers: ColumnFamily
    let operands: ColumnFamily
    var tombstones = RangeTombstoneMerge()
    var hasOperands = false
  }

  private let engine: Engine
  private let families: SalvagedFamilies
  private var outputs: [SalvageOwner: Output] = [:]
  private var batch = WriteBatch()
  /// The number of operands of families whose operator the new database does not have, by name of the family.
  private(set) var lostOperands: [String: Int] = [:]

  init(_ engine: Engine, _ families: SalvagedFamilies) {
    self.engine = engine
    self.families = families
  }

  /// The owners of the entries that were added, and of the families that were begun.
  var owners: [SalvageOwner] { Array(outputs.keys) }

  func begin(_ owner: SalvageOwner) throws(EngineError) { _ = try output(owner) }

  private func output(_ owner: SalvageOwner) throws(EngineError) -> Output {
    if let known = outputs[owner] { return known }
    let familyOptions = families.options(owner, known: engine.options)
    let name = families.name(owner)
    let family =
      owner == .family(.default) ? engine.defaultFamily : try engine.createFamily(name, options: familyOptions)
    let output = Output(
      family: family, trailers: try engine.createFamily("salvage: trailers \(outputs.count)"),
      operands: try engine.createFamily("salvage: operands \(outputs.count)"))
    outputs[owner] = output
    return output
  }

  // MARK: - Entries

  func add(_ owner: SalvageOwner, _ list: RangeTombstoneList) throws(EngineError) {
    if list.isEmpty { return }
    _ = try output(owner)
    outputs[owner]?.tombstones.add(list)
  }

  func add(_ owner: SalvageOwner, _ key: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
    let output = try output(owner)
    switch trailer.kind {
    case .put, .delete, .singleDelete: try addPoint(output, key, trailer, value)
    case .rangeDelete:
      let keys = KeyPair(key.bytes, value.bytes)
      outputs[owner]?.tombstones.add(keys.first, keys.second, trailer.sequence, owner: keys)
    case .merge: try addOperand(owner, output, key, trailer, value)
    case nil: break
    }
  }

  private func addPoint(
    _ output: Output, _ key: ByteView, _ trailer: Trailer, _ value: ByteView
  ) throws(EngineError) {
    if let known = try trailerWord(output, key), known >= trailer.word { return }
    let isPut = trailer.kind == .put
    batch.removeAll()
    var word = ByteWriter(capacity: 8)
    word.append(integer: trailer.word)
    try batch.append(.put, output.trailers.id, key, word.view)
    try batch.append(isPut ? .put : .delete, output.family.id, key, isPut ? value : ByteView())
    // The entry need not be durable before the end, when all entries are in tables.
    try engine.write(batch, durability: Durability.none)
  }

  private func trailerWord(_ output: Output, _ key: ByteView) throws(EngineError) -> UInt64? {
    try engine.get(key.bytes, in: output.trailers)?.withByteView { $0.load(0, as: UInt64.self) }
  }

  private func addOperand(
    _ owner: SalvageOwner, _ output: Output, _ key: ByteView, _ trailer: Trailer, _ value: ByteView
  ) throws(EngineError) {
    guard engine.options.mergeFunction(named: output.family.state.options.mergeOperator) != nil else {
      lostOperands[output.family.name, default: 0] += 1
      return
    }
    var all = ByteWriter()
    if let known = try engine.get(key.bytes, in: output.operands) { all.append(known) }
    all.append(integer: trailer.sequence.value)
    all.append(lengthPrefixed: value)
    batch.removeAll()
    try batch.append(.put, output.operands.id, key, all.view)
    try engine.write(batch, durability: Durability.none)
    outputs[owner]?.hasOperands = true
  }

  // MARK: - The end

  /// Applies range tombstones and operands, makes all entries durable, and removes the families that only the copying
  /// needed.
  func finish() throws(EngineError) -> [SalvageReport.Family] {
    var result: [SalvageReport.Family] = []
    for output in outputs.values.sorted(by: { $0.trailers.id < $1.trailers.id }) {
      let tombstones = output.tombstones.newestFragments()
      try deleteCovered(output, tombstones)
      if output.hasOperands { try writeOperands(output, tombstones) }
      try engine.dropFamily(output.trailers)
      try engine.dropFamily(output.operands)
      result.append(.init(name: output.family.name, rowCount: try countRows(output.family)))
    }
    try engine.flush()
    return result.sorted { $0.name < $1.name }
  }

  private func deleteCovered(_ output: Output, _ tombstones: RangeTombstoneList) throws(EngineError) {
    if tombstones.isEmpty { return }
    var cursor = try engine.cursor(in: output.trailers)
    for index in 0..<tombstones.count {
      let end = tombstones.end(index)
      let newest = tombstones.newest(index, at: .maximum)
      try cursor.seek(tombstones.start(index).bytes)
      while cursor.isValid {
        let key = cursor.keyBytes
        guard key.withByteView({ $0 < end }) else { break }
        let word = cursor.valueBytes.withByteView { $0.load(0, as: UInt64.self) }
        if Trailer(word: word).sequence < newest {
          try engine.delete(key, in: output.family, durability: Durability.none)
        }
        try cursor.next()
      }
    }
  }

  private func writeOperands(_ output: Output, _ tombstones: RangeTombstoneList) throws(EngineError) {
    var cursor = try engine.cursor(in: output.operands)
    try cursor.seekToFirst()
    while cursor.isValid {
      let key = cursor.keyBytes
      let (cover, word) = try key.withByteView { (view) throws(EngineError) in
        (tombstones.sequence(covering: view, at: .maximum), try trailerWord(output, view))
      }
      let base = max(cover, word.map { Trailer(word: $0).sequence } ?? .zero)
      var operands: [UInt64: [UInt8]] = [:]
      try cursor.valueBytes.withByteView { (view) throws(EngineError) in
        var reader = ByteReader(view)
        while !reader.isAtEnd {
          let sequence = try reader.integer(UInt64.self)
          let operand = try reader.lengthPrefixed()
          if sequence > base.value || base == .zero { operands[sequence] = operand.bytes }
        }
      }
      for sequence in operands.keys.sorted() {
        guard let operand = operands[sequence] else { continue }
        batch.removeAll()
        try batch.merge(key, operand, in: output.family)
        try engine.write(batch, durability: Durability.none)
      }
      try cursor.next()
    }
  }

  private func countRows(_ family: ColumnFamily) throws(EngineError) -> Int {
    var count = 0
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    while cursor.isValid {
      count += 1
      try cursor.next()
    }
    return count
  }
}
