import VarveTestSupport

@testable import Varve

/// An extension that stores the rows of "rows", and writes a row of "derived" for each, even while it is built.
///
/// Its entries contain its version, so that successive definitions can be distinguished; the rows that it writes do
/// not.
struct ModelDeriving: DatabaseExtension {
  static let kind = "model.derivation"
  var version: Int

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "\(version)")
    configuration.scope = .only(["rows"])
    configuration.catchesUp = true
    configuration.parts = [PartDefinition("seen"), PartDefinition("sums", .counters(.sum))]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelDerivingTransaction {
    try ModelDerivingTransaction(version, context)
  }
}

final class ModelDerivingTransaction: ExtensionTransaction {
  typealias Definition = ModelDeriving
  private let version: Int
  private let context: ExtensionContext<ModelDeriving>
  let seen: Part
  let sums: Part

  init(_ version: Int, _ context: ExtensionContext<ModelDeriving>) throws {
    self.version = version
    self.context = context
    seen = try context.part("seen")
    sums = try context.part("sums")
  }

  func didChange(_ change: borrowing RowChange) throws {
    try keep(try change.key.key(as: Int.self), try change.row?.object(as: Int.self))
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    try keep(try key.key(as: Int.self), try row?.object(as: Int.self))
  }

  private func keep(_ key: Int, _ number: Int?) throws {
    guard let transaction = context.writeTransaction else { return }
    let bytes = ModelParts.key(key)
    // This is the row's former number: the sum must equal that of all rows at every moment.
    let old = try seen.get(bytes).map { try Self.number($0).number } ?? 0
    try sums.add(Int64((number ?? 0) - old), to: [0])
    if let number {
      try seen.put(bytes, BigEndian.bytes(Int64(version)) + BigEndian.bytes(Int64(number)))
      try transaction.set(2 * number, key: key, in: "derived")
    } else {
      try seen.delete(bytes)
      try transaction.remove(key: key, in: "derived")
    }
  }

  /// Returns the version and the number in a value.
  static func number(_ bytes: [UInt8]) throws -> (version: Int, number: Int) {
    guard let version = BigEndian.number(bytes, as: Int64.self),
      let number = BigEndian.number(bytes, at: 8, as: Int64.self)
    else { throw ContractBroken("a value of \(bytes.count) bytes") }
    return (Int(version), Int(number))
  }
}

/// An extension that receives the rows that the derivation writes, and writes rows itself: a hook within a hook
/// within a write.
struct ModelChain: DatabaseExtension {
  static let kind = "model.chain"

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(["derived"])
    configuration.catchesUp = true
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelChainTransaction {
    ModelChainTransaction(context)
  }

  /// Returns the number in "chained" for a row of "derived".
  static func chained(_ number: Int) -> Int? { number % 3 == 0 ? number + 1 : nil }
}

final class ModelChainTransaction: ExtensionTransaction {
  typealias Definition = ModelChain
  private let context: ExtensionContext<ModelChain>
  init(_ context: ExtensionContext<ModelChain>) { self.context = context }

  func didChange(_ change: borrowing RowChange) throws {
    try keep(try change.key.key(as: Int.self), try change.row?.object(as: Int.self))
  }

  func didMiss(_ key: RowKey, _ row: Row?) throws {
    try keep(try key.key(as: Int.self), try row?.object(as: Int.self))
  }

  private func keep(_ key: Int, _ number: Int?) throws {
    guard let transaction = context.writeTransaction else { return }
    if let chained = number.flatMap(ModelChain.chained) {
      try transaction.set(chained, key: key, in: "chained")
    } else {
      try transaction.remove(key: key, in: "chained")
    }
  }
}

/// An extension that depends on the derivation: it copies the derivation's entry of each row, read in the same
/// transaction.
///
/// When another definition replaces the derivation, an extension with `keepsUp` copies its parts at once, and others
/// are rebuilt.
struct ModelDependent: DatabaseExtension {
  static let kind = "model.dependent"
  var keepsUp: Bool

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.scope = .only(["rows"])
    configuration.dependencies = ["deriving"]
    configuration.parts = [PartDefinition("copies")]
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelDependentTransaction {
    try ModelDependentTransaction(keepsUp, context)
  }
}

final class ModelDependentTransaction: ExtensionTransaction {
  typealias Definition = ModelDependent
  private static let dependency = ModelDeriving(version: 0).named("deriving")
  private let keepsUp: Bool
  private let context: ExtensionContext<ModelDependent>
  let copies: Part

  init(_ keepsUp: Bool, _ context: ExtensionContext<ModelDependent>) throws {
    self.keepsUp = keepsUp
    self.context = context
    copies = try context.part("copies")
  }

  func didChange(_ change: borrowing RowChange) throws {
    let key = ModelParts.key(try change.key.key(as: Int.self))
    if change.event == .removed { return try copies.delete(key) }
    guard let value = try context.transaction[Self.dependency].seen.get(key) else {
      throw ContractBroken("the dependency has not received row \(key)")
    }
    try copies.put(key, value)
  }

  func dependencyDidChange(_ name: String, _ change: any Sendable) throws {
    guard keepsUp, let replacement = change as? ReplacedDependency else { return }
    try copies.deleteRange(StorageRange())
    var cursor = try context.transaction[Self.dependency].seen.cursor()
    while let (key, value) = try cursor.next() { try copies.put(key, value) }
    replacement.keep()
  }
}

/// An extension with parts of every form, which the program writes directly.
struct ModelParts: DatabaseExtension {
  static let kind = "model.parts"
  static let name = "parts"

  /// The parts, in order.
  enum Form: Int, CaseIterable, Sendable {
    case values, sums, maxima, writeOnce, appendOnly, scratch, asideValues, asideSums

    /// Whether independent commits may use the part.
    var isIndependent: Bool { self == .asideValues || self == .asideSums }
    var isCounter: Bool { self == .sums || self == .maxima || self == .asideSums }

    fileprivate var definition: PartDefinition {
      let form: PartDefinition.Form =
        switch self {
        case .values, .asideValues: .values
        case .sums, .asideSums: .counters(.sum)
        case .maxima: .counters(.maximum)
        case .writeOnce: .writeOnce
        case .appendOnly: .appendOnly
        case .scratch: .scratch
        }
      var definition = PartDefinition("\(self)", form)
      definition.isIndependent = isIndependent
      return definition
    }
  }

  /// The maximum number of keys in each part.
  static let keyCount = 24

  /// Returns the key with a number.
  static func key(_ index: Int) -> [UInt8] { [UInt8(truncatingIfNeeded: index)] }

  var configuration: ExtensionConfiguration {
    var configuration = ExtensionConfiguration(version: "1")
    configuration.events = []
    configuration.build = .none
    configuration.parts = Form.allCases.map(\.definition)
    return configuration
  }

  func makeTransaction(_ context: ExtensionContext<Self>) throws -> ModelPartsTransaction {
    try ModelPartsTransaction(context)
  }
}

final class ModelPartsTransaction: ExtensionTransaction {
  typealias Definition = ModelParts
  private let parts: [Part]

  init(_ context: ExtensionContext<ModelParts>) throws {
    parts = try ModelParts.Form.allCases.map { try context.part("\($0)") }
  }

  /// Never called, because the extension receives no changes.
  func didChange(_ change: borrowing RowChange) throws {}

  subscript(form: ModelParts.Form) -> Part { parts[form.rawValue] }
}
