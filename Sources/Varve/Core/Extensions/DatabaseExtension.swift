/// Something that keeps data of its own beside the rows, and receives each change of them: an index, a view,
/// relationships, or what a program writes itself.
///
/// ```swift
/// struct WordCount: DatabaseExtension {
///   static let kind = "com.example.words"
///   var configuration: ExtensionConfiguration {
///     var configuration = ExtensionConfiguration(version: "1")
///     configuration.parts = [PartDefinition("counts", .counters(.sum))]
///     return configuration
///   }
///   func makeTransaction(_ context: ExtensionContext<Self>) throws -> WordCountTransaction {
///     try WordCountTransaction(context)
///   }
/// }
/// let words = try await database.register(WordCount(), as: "words")
/// let count = try database.read { tx in try tx[words].count(of: "sea") }
/// ```
///
/// The extension is the definition: a value, the same for every transaction. What it does in one is its
/// `Transaction`, made when the transaction first needs it.
public protocol DatabaseExtension: Sendable {
  /// What the extension does in a transaction.
  associatedtype Transaction: ExtensionTransaction where Transaction.Definition == Self
  /// What one commit means for observers. Default `Never`: nothing.
  associatedtype Changes: Sendable = Never

  /// The identity of this kind of extension on disk, the same for ever: `"com.example.words"`. Another kind under a name
  /// that is used throws `.extensionMismatch` and changes nothing. Neither empty nor with `=` or U+001F.
  static var kind: String { get }
  /// What the extension keeps and receives. Read once, at its registration.
  var configuration: ExtensionConfiguration { get }

  /// Refuses a registration beside others, by throwing. Default: allows it.
  func check(registered: [String: any DatabaseExtension]) throws
  /// Makes what receives a transaction's changes, and reads and writes what the extension keeps. Takes its parts from
  /// the context.
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> Transaction
}

extension DatabaseExtension {
  /// Beside any.
  public func check(registered: [String: any DatabaseExtension]) throws {}
}
