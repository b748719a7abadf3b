public import Varve

/// Checks an extension by random operations on a database of its own: after them, the extension must keep what it would
/// keep if it were built from the rows that are left.
///
/// ```swift
/// @Test func `words are counted in every case`() throws {
///   try checkExtension(WordCount(), collections: ["notes"]) { values in values.words(3) }
/// }
/// ```
///
/// The operations are insertions, updates, removals and touches of rows, removals of all rows, savepoints that are
/// undone and that are not, transactions that fail, and reopenings of the database. The following must hold, byte by
/// byte, for all parts of the extension:
///
/// - After an operation in a savepoint that is undone, they are as before. The operation is then done again, so a field
///   of the transaction's object that has survived the savepoint becomes visible as a wrong result.
/// - They stay when the database is closed and opened again.
/// - They equal those of a fresh build over the same rows. This is not required of an extension that receives no
///   existing rows (`ExtensionConfiguration.build`), or one of whose parts is data of the program
///   (`PartDefinition.isDerived`).
///
/// - Parameters:
///   - definition: The extension. It must not depend on others.
///   - collections: The collections that get rows.
///   - steps: The number of transactions.
///   - seed: The seed of everything random; the error names it.
///   - row: Makes the object of a row.
///   - operation: Does something else in a transaction, for an extension that is changed by calls.
///   - inspect: Returns what is wrong with the extension, if anything. It is called after each transaction.
///
/// Throws ``ExtensionCheckFailure`` for the first difference, and errors of the extension.
public func checkExtension<Definition: DatabaseExtension, Object: Codable & Sendable>(
  _ definition: Definition, collections: [String], steps: Int = 200, seed: UInt64 = .random(in: 0...UInt64.max),
  row: @escaping (inout SampleValues) throws -> Object,
  operation: ((WriteTransaction, ExtensionHandle<Definition>, inout SampleValues) throws -> Void)? = nil,
  inspect: ((ReadTransaction, ExtensionHandle<Definition>) throws -> [String])? = nil
) throws {
  let handle = definition.named("checked")
  let configuration = definition.configuration
  let opened = DatabaseDefinition {
    for name in collections { CollectionDefinition(name, Object.self, key: Int.self) }
    handle
  }
  let set: ExtensionCheck.Setter = { _, tx, name, values in
    try tx.set(row(&values), key: values.int(in: 0...ExtensionCheck.keyMaximum), in: name)
  }
  var check = try ExtensionCheck(opened, name: handle.name, collections: collections, seed: seed, set: set)
  check.isCompared = configuration.build == .background && configuration.parts.allSatisfy(\.isDerived)
  check.operation = operation.map { operation in { try operation($0, handle, &$1) } }
  check.inspect = inspect.map { inspect in { try inspect($0, handle) } }
  try check.run(steps)
}

/// Checks the indexes of a format like ``checkExtension(_:collections:steps:seed:row:operation:inspect:)``: after
/// random operations they must have what a fresh build of them has.
///
/// - Parameters:
///   - format: The format.
///   - steps: The number of transactions.
///   - seed: The seed of everything random; the error names it.
///   - instance: Makes an instance, whose identifier should be one of a few. If a unique index refuses it, nothing
///     happens.
public func checkIndexes<Format: StoreFormat>(
  of format: Format.Type, steps: Int = 200, seed: UInt64 = .random(in: 0...UInt64.max),
  instance: @escaping (inout SampleValues) throws -> Format.Instance
) throws {
  let collection = Format.collection
  let definition = DatabaseDefinition { format }
  let set: ExtensionCheck.Setter = { database, tx, _, values in
    do {
      _ = try Store(format, in: database).persist(instance(&values), in: tx)
    } catch let error as DatabaseError where error.code == .notUnique {}
  }
  var check = try ExtensionCheck(definition, name: nil, collections: [collection], seed: seed, set: set)
  check.isCompared = true
  try check.run(steps)
}

/// A difference that `checkExtension` has found.
public struct ExtensionCheckFailure: Error, CustomStringConvertible, Sendable {
  /// The seed with which the check finds it again.
  public let seed: UInt64
  /// The number of transactions before it.
  public let step: Int
  /// What was found.
  public let text: String

  /// What was found, with the seed and the step.
  public var description: String { "\(text) (seed \(seed), step \(step))" }
}
