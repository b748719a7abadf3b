internal import Synchronization

/// An extension that is open in one transaction: the state that its context, its parts and the hooks share.
///
/// It belongs to the thread of its transaction.
final class OpenExtension {
  let registered: RegisteredExtension
  /// The content of the extension at the transaction's snapshot, if another program writes the database.
  let content: ExtensionContent?
  /// The object that the extension made for the transaction, or `nil` before that and after the transaction's end.
  private(set) var listener: (any ExtensionTransaction)?
  private struct State {
    var reader: ReadTransaction?
    var writer: WriteTransaction?
    var families: [StorageFamily?]
  }

  /// At a pointer, because fields of a class would be checked for exclusive access with each entry that is written.
  private let state: StatePointer<State>
  /// The transaction, until it ends; its end breaks the reference cycle, because the transaction owns the extension's
  /// object, which owns this one.
  var reader: ReadTransaction? { @inline(__always) get { state.pointee.reader } }
  var writer: WriteTransaction? { @inline(__always) get { state.pointee.writer } }
  /// Whether another definition has come into force in the transaction. The parts can then be read, but not written.
  var isReplaced = false {
    didSet { if isReplaced != oldValue { state.pointee.writer = isReplaced ? nil : reader as? WriteTransaction } }
  }
  private let pending: (any StorageWriting)?
  /// The object that notes writes to observed parts, or `nil` if no part is observed.
  let partWrites: PartWrites?
  let limits: StorageLimits
  /// The families by the index of the part; `nil` for one that is not made yet, or was not used.
  private var families: [StorageFamily?] {
    @inline(__always) _read { yield state.pointee.families }
    @inline(__always) _modify { yield &state.pointee.families }
  }
  /// The parts to which writes are applied: those for which the change that is being received counts.
  var activeParts: PartSet { PartSet(rawValue: active.load(ordering: .relaxed)) }
  /// Atomic for the same reason as `HookQueue.flags`.
  private let active = Atomic<UInt64>(PartSet.all.rawValue)
  /// The scratch parts that were written to, which this transaction's commit leaves out.
  private var scratchParts: PartSet = []
  /// Whether the extension has received a change since its last flush.
  private let needsFlush = Atomic<Bool>(false)

  init(_ registered: RegisteredExtension, _ transaction: ReadTransaction, _ content: ExtensionContent?) {
    self.registered = registered
    self.content = content
    let writer = transaction as? WriteTransaction
    pending = writer?.pending
    partWrites = writer?.partWrites
    limits = transaction.database.limits
    state = StatePointer(
      State(
        reader: transaction, writer: writer,
        families: writer?.spill?.families ?? content?.families ?? registered.families))
  }

  var name: String { registered.name }

  /// Lets the extension make its object for the transaction.
  func make() throws -> any ExtensionTransaction {
    let listener = try make(registered.definition)
    self.listener = listener
    return listener
  }

  private func make<Definition: DatabaseExtension>(_ definition: Definition) throws -> any ExtensionTransaction {
    try definition.makeTransaction(try ExtensionContext(self))
  }

  /// Releases the references when the transaction has ended.
  func end() {
    listener = nil
    state.pointee.reader = nil
    state.pointee.writer = nil
  }

  deinit { state.destroy() }

  // MARK: - Changes

  /// Prepares the extension to receive a change that counts for some of its parts. What it has pending for other parts
  /// is written first.
  @inline(__always)
  func activate(_ parts: PartSet) throws {
    if activeParts != parts { try switchParts(to: parts) }
    needsFlush.store(true, ordering: .relaxed)
  }

  @inline(never)
  private func switchParts(to parts: PartSet) throws {
    if needsFlush.load(ordering: .relaxed) { try flush() }
    active.store(parts.rawValue, ordering: .relaxed)
  }

  /// Lets the extension write its pending changes.
  func flush() throws {
    needsFlush.store(false, ordering: .relaxed)
    guard let listener else { return }
    guard registered.traits.isImmediate, !registered.traits.configuration.flushChangesRows, let writer else {
      return try listener.flush()
    }
    try writer.banningRows { try listener.flush() }
  }

  // MARK: - Storage

  /// Returns the transaction for a read. Throws if it has ended or can't be used any more.
  func reading() throws -> ReadTransaction {
    guard let reader else { throw ReadTransaction.endedError }
    try reader.check()
    return reader
  }

  /// Returns the transaction for a read of a part or of the shared state. Throws in a build that collects what the
  /// extension writes, because these reads can't be answered then.
  func readingParts() throws -> ReadTransaction {
    let transaction = try reading()
    if let spill = transaction.spill { throw spill.refuse("reads what it keeps") }
    return transaction
  }

  /// Returns the transaction for a write.
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
    try writer.requireHookMayWrite()
    if writer.isChecked { try writer.requireWriter(for: registered) }
    return writer
  }

  /// Returns a part of the configuration.
  func part(_ name: String) throws -> Part {
    let name = Name.composed(name)
    guard let slot = registered.traits.parts.firstIndex(where: { $0.name == name }) else {
      throw DatabaseError(
        .invalidArgument,
        "extension \"\(self.name)\" asks for a part \"\(name)\", which its configuration does not have")
    }
    return Part(self, slot)
  }

  /// Returns the family of a part, or `nil` if nothing was ever written to the part.
  func family(_ part: Int) -> StorageFamily? {
    if let family = families[part] { return family }
    guard content == nil, let family = registered.families[part] else { return nil }
    families[part] = family
    return family
  }

  /// Returns the family in which a part is read. In a transaction whose reads are checked, the family is made if it is
  /// missing, so that the check finds what was written to it in the meantime.
  func checkedFamily(_ part: Int, isIndependent: Bool) throws -> StorageFamily? {
    if let family = family(part) { return family }
    guard content == nil, let writer, isIndependent || writer.isChecked else { return nil }
    return try makeFamily(part)
  }

  /// Returns where a part is written, or `nil` if the write is discarded because the change counts for other parts.
  @inline(__always)
  func target(_ part: Int) throws -> (StorageFamily, any StorageWriting)? {
    _ = try writing()
    guard activeParts.contains(PartSet(part: part)), let pending else { return nil }
    return (try families[part] ?? makeFamily(part), pending)
  }

  /// Returns where a scratch part is written. It does not depend on the parts for which the change counts, because a
  /// scratch part is never built.
  func scratchTarget(_ part: Int) throws -> (StorageFamily, any StorageWriting)? {
    _ = try writing()
    guard let pending else { return nil }
    let family = try families[part] ?? makeFamily(part)
    if !scratchParts.contains(PartSet(part: part)) {
      try pending.markAsScratch(family)
      scratchParts.insert(PartSet(part: part))
    }
    return (family, pending)
  }

  /// Returns whether this transaction has written to a scratch part.
  func hasScratch(_ part: Int) -> Bool { scratchParts.contains(PartSet(part: part)) }

  /// Returns whether this transaction has appended to a part.
  func hasAppended(to family: StorageFamily) -> Bool { pending?.hasAppended(to: family) ?? false }

  /// Returns the last change of a key that the transaction has appended.
  func appendedChange(of key: [UInt8], in family: StorageFamily) throws -> AppendedChange? {
    try pending?.appendedChange(of: key, in: family)
  }

  @inline(never)
  private func makeFamily(_ part: Int) throws -> StorageFamily {
    let family = try registered.makeFamily(part)
    families[part] = family
    return family
  }

  /// Throws if an entry is too large. The storage would detect it only at the commit, when it is too late to handle it.
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
    if let writer { return writer.tooLarge("an entry of extension \"\(name)\"") }
    return DatabaseError(
      .batchTooLarge, "with an entry of extension \"\(name)\" the commit takes more than \(limits.batchSize) bytes")
  }

  /// Runs a lookup in the families, which may have been dropped meanwhile because the extension was unregistered,
  /// rebuilt or replaced. Throws `.snapshotTooOld` in that case.
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
