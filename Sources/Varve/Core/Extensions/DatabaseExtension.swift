/// A type that keeps data of its own beside the rows and receives each change of them: an index, a view, relationships,
/// or an extension of the program's own.
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
/// try await database.waitUntilReady(words)
/// let count = try database.read { tx in try tx[words].count(of: "sea") }
/// ```
///
/// The conforming value is the definition, and is the same for every transaction. The work in one transaction is done
/// by its `Transaction`, which is made when the transaction first needs it.
public protocol DatabaseExtension: Sendable {
  /// The extension's object in a transaction.
  associatedtype Transaction: ExtensionTransaction where Transaction.Definition == Self
  /// The state in memory that all transactions share, for example sums for readers or the head of a queue.
  ///
  /// Its content is that of the last acknowledged commit. The default, `Void`, shares nothing and costs nothing.
  associatedtype Shared: Sendable = Void
  /// The effect of one commit on `Shared`. Default `Never`: there is none.
  associatedtype Delta: Sendable = Never
  /// The changes of one commit that observers receive. Default `Never`: there are none.
  associatedtype Changes: Sendable = Never

  /// The identity of this kind of extension on disk, for example `"com.example.words"`, which must never change.
  ///
  /// Registering another kind under a name that is in use throws `.extensionMismatch` and changes nothing. The kind
  /// must not be empty or contain `=` or U+001F.
  static var kind: String { get }
  /// The configuration: what the extension keeps and receives. It is read once, at the registration.
  var configuration: ExtensionConfiguration { get }

  /// Throws if the extension can't be registered together with the extensions that are registered already. The default
  /// allows it.
  func check(registered: [String: any DatabaseExtension]) throws
  /// Makes the object that receives a transaction's changes, and that reads and writes what the extension keeps. It
  /// takes its parts from the context.
  func makeTransaction(_ context: ExtensionContext<Self>) throws -> Transaction

  /// Makes the shared state from the parts as of one commit.
  ///
  /// The deltas of exactly the commits after that one follow. The method is called once, at the registration, which
  /// fails if it throws.
  func makeShared(_ view: borrowing SharedView) throws -> Shared
  /// Receives an acknowledged commit.
  ///
  /// The method is called once for each commit, in commit order, after the commit is as durable as requested and before
  /// a reader sees it. `delta` is what the extension's transaction returned for the commit, or `nil` if the commit did
  /// not use the extension.
  ///
  /// The method is called on the thread that acknowledges, while other commits wait to be acknowledged: it must not
  /// wait, and must not call the database. Readers of an earlier commit read the parts instead of the shared state.
  func didAcknowledge(_ version: CommitVersion, _ delta: Delta?, _ shared: Shared)
  /// Moves the shared state to a commit for which there are no deltas: in a program that only reads, and when the
  /// extension is built again.
  func didSkip(to view: borrowing SharedView, _ shared: Shared) throws

  /// Returns the memory in bytes, allocations included, that the changes of one commit take.
  ///
  /// Connections hold change sets of up to 4 MiB. The default, `nil`, counts as much as the rows of the change set.
  ///
  /// The method is called once for each `Changes` that `takeChanges` returns, on the thread of the commit.
  func byteCount(of changes: Changes) -> Int?
}

extension DatabaseExtension where Shared == Void {
  /// Makes an empty shared state.
  public func makeShared(_ view: borrowing SharedView) throws {}
}

extension DatabaseExtension {
  /// Allows the registration.
  public func check(registered: [String: any DatabaseExtension]) throws {}
  /// Does nothing.
  public func didAcknowledge(_ version: CommitVersion, _ delta: Delta?, _ shared: Shared) {}
  /// Does nothing.
  public func didSkip(to view: borrowing SharedView, _ shared: Shared) throws {}
  /// Returns `nil`: as much as the rows of the change set.
  public func byteCount(of changes: Changes) -> Int? { nil }

  /// Returns the memory in bytes of changes that the extension's transaction has returned.
  func countedBytes(of changes: any Sendable) -> Int? { (changes as? Changes).flatMap { byteCount(of: $0) } }
}
