internal import Synchronization

/// An extension in one transaction: what its context, its parts and the hooks share.
///
/// It belongs to the thread of its transaction.
final class OpenExtension {
  let registered: RegisteredExtension
  /// Where another program writes: what it keeps at the transaction's snapshot.
  let content: ExtensionContent?
  /// What the extension made for the transaction; nil before that, and after the end.
  private(set) var hearer: (any ExtensionTransaction)?
  /// Until the transaction ends, which cuts the circle: it owns the extension's part, which owns this.
  private(set) var reader: ReadTransaction?
  private(set) var writer: WriteTransaction?
  /// Whether another definition is in force in the transaction by now. Its parts can be read, and not be written.
  var isReplaced = false {
    didSet { if isReplaced != oldValue { writer = isReplaced ? nil : reader as? WriteTransaction } }
  }
  private let pending: (any StorageWriting)?
  /// Where writes to parts that are observed are noted; nil where none is.
  let partWrites: PartWrites?
  let limits: StorageLimits
  /// By the index of the part; nil: it is not made yet, or was not asked for.
  private var families: [StorageFamily?]
  /// The parts that writes go to: those that the change counts for that is received.
  var activeParts: PartSet { PartSet(rawValue: active.load(ordering: .relaxed)) }
  /// Atomic, as `HookQueue.flags` is.
  private let active = Atomic<UInt64>(PartSet.all.rawValue)
  /// The scratch parts that this transaction's commit leaves out: those that were written to.
  private var leftOut: PartSet = []
  /// Whether it has received a change since its last flush.
  private let isStirred = Atomic<Bool>(false)

  init(_ registered: RegisteredExtension, _ transaction: ReadTransaction, _ content: ExtensionContent?) {
    self.registered = registered
    self.content = content
    reader = transaction
    writer = transaction as? WriteTransaction
    pending = writer?.pending
    partWrites = writer?.partWrites
    limits = transaction.database.limits
    families = writer?.spill?.families ?? content?.families ?? registered.families
  }

  var name: String { registered.name }

  /// Lets the extension make what belongs to the transaction.
  func make() throws -> any ExtensionTransaction {
    let hearer = try make(registered.definition)
    self.hearer = hearer
    return hearer
  }

  private func make<Definition: DatabaseExtension>(_ definition: Definition) throws -> any ExtensionTransaction {
    try definition.makeTransaction(try ExtensionContext(self))
  }

  /// The transaction has ended.
  func end() {
    hearer = nil
    reader = nil
    writer = nil
  }

  // MARK: - Changes

  /// The extension is about to receive something that counts for some of its parts. What it has pending for others is
  /// written before.
  @inline(__always)
  func activate(_ parts: PartSet) throws {
    if activeParts != parts { try switchParts(to: parts) }
    isStirred.store(true, ordering: .relaxed)
  }

  @inline(never)
  private func switchParts(to parts: PartSet) throws {
    if isStirred.load(ordering: .relaxed) { try flush() }
    active.store(parts.rawValue, ordering: .relaxed)
  }

  /// Lets it write what is pending.
  func flush() throws {
    isStirred.store(false, ordering: .relaxed)
    guard let hearer else { return }
    guard registered.traits.isImmediate, !registered.traits.configuration.flushChangesRows, let writer else {
      return try hearer.flush()
    }
    try writer.banningRows { try hearer.flush() }
  }

  // MARK: - Storage

  /// The transaction, for a read. Throws where it has ended or can't be used any more.
  func reading() throws -> ReadTransaction {
    guard let reader else { throw ReadTransaction.endedError }
    try reader.check()
    return reader
  }

  /// The transaction, for a read of a part or of what is shared. A build that collects what the extension writes can't
  /// answer that.
  func readingParts() throws -> ReadTransaction {
    let transaction = try reading()
    if let spill = transaction.spill { throw spill.refuse("reads what it keeps") }
    return transaction
  }

  /// The transaction, for a write.
  func writing() throws -> WriteTransaction {
    guard let writer else {
      _ = try reading()
      if isReplaced {
        throw DatabaseError(
          .invalidArgument,
          "the definition of extension \"\(name)\" was replaced in this transaction; ask the transaction for it again")
      }
      throw DatabaseError(.readOnly, "extension \"\(name)\" writes in a read; a hook or a write may")
    }
    try writer.check()
    try writer.requireNoQuestion()
    if writer.isChecked { try writer.requireWriter(for: registered) }
    return writer
  }

  /// A part of its configuration.
  func part(_ name: String) throws -> Part {
    let name = Name.composed(name)
    guard let slot = registered.traits.parts.firstIndex(where: { $0.name == name }) else {
      throw DatabaseError(
        .invalidArgument,
        "extension \"\(self.name)\" asks for a part \"\(name)\", which its configuration does not have")
    }
    return Part(self, slot)
  }

  /// Where a part is; nil where nothing was ever written to it.
  func family(_ part: Int) -> StorageFamily? {
    if let family = families[part] { return family }
    guard content == nil, let family = registered.families[part] else { return nil }
    families[part] = family
    return family
  }

  /// Where a part is read. What a transaction reads that is checked has a family, so that the check finds what came into
  /// it meanwhile.
  func checkedFamily(_ part: Int, isIndependent: Bool) throws -> StorageFamily? {
    if let family = family(part) { return family }
    guard content == nil, let writer, isIndependent || writer.isChecked else { return nil }
    return try makeFamily(part)
  }

  /// Where a part is written to; nil where the write goes nowhere, because the change counts for other parts.
  @inline(__always)
  func target(_ part: Int) throws -> (StorageFamily, any StorageWriting)? {
    _ = try writing()
    guard activeParts.contains(PartSet(part: part)), let pending else { return nil }
    return (try families[part] ?? makeFamily(part), pending)
  }

  /// Where a scratch part is written to, whatever the change counts for: it is never built.
  func scratchTarget(_ part: Int) throws -> (StorageFamily, any StorageWriting)? {
    _ = try writing()
    guard let pending else { return nil }
    let family = try families[part] ?? makeFamily(part)
    if !leftOut.contains(PartSet(part: part)) {
      try pending.leaveOut(family)
      leftOut.insert(PartSet(part: part))
    }
    return (family, pending)
  }

  /// Whether this transaction has written to a scratch part.
  func hasScratch(_ part: Int) -> Bool { leftOut.contains(PartSet(part: part)) }

  /// Whether this transaction has appended to a part.
  func hasAppended(to family: StorageFamily) -> Bool { pending?.hasAppended(to: family) ?? false }

  @inline(never)
  private func makeFamily(_ part: Int) throws -> StorageFamily {
    let family = try registered.makeFamily(part)
    families[part] = family
    return family
  }

  /// Throws where an entry is too large: the storage would find it at the commit, where nothing can be done about it any
  /// more.
  @inline(__always)
  func check(keySize: Int, valueSize: Int) throws {
    guard keySize <= limits.keySize, valueSize <= limits.valueSize,
      (pending?.byteCount ?? 0) + keySize + valueSize <= limits.batchSize
    else { throw tooLarge(keySize, valueSize) }
  }

  private func tooLarge(_ keySize: Int, _ valueSize: Int) -> DatabaseError {
    if keySize > limits.keySize {
      return DatabaseError(
        .keyTooLong, "a key of extension \"\(name)\" has \(keySize) bytes, and the storage takes \(limits.keySize)")
    }
    if valueSize > limits.valueSize {
      return DatabaseError(
        .valueTooLong,
        "a value of extension \"\(name)\" has \(valueSize) bytes, and the storage takes \(limits.valueSize)")
    }
    return DatabaseError(
      .batchTooLarge,
      "with an entry of extension \"\(name)\" the transaction takes more than the \(limits.batchSize) bytes of a commit"
    )
  }

  /// Runs a look into the families, which may have been dropped meanwhile: the extension was unregistered, or rebuilt.
  /// Throws `.snapshotTooOld` then.
  func followed<Result>(_ transaction: ReadTransaction, _ body: () throws -> Result) throws -> Result {
    do { return try body() } catch {
      let living = try transaction.database.backend.families().map(\.number)
      guard families.contains(where: { $0.map { !living.contains($0.number) } ?? false }) else { throw error }
      throw DatabaseError(
        .snapshotTooOld,
        "extension \"\(name)\" was unregistered, rebuilt or replaced meanwhile; begin another transaction",
        cause: error)
    }
  }
}
