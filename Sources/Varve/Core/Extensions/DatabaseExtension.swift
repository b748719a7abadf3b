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
/// try await database.ready(words)
/// let count = try database.read { tx in try tx[words].count(of: "sea") }
/// ```
///
/// The extension is the definition: a value, the same for every transaction. What it does in one is its
/// `Transaction`, made when the transaction first needs it.
public protocol DatabaseExtension: Sendable {
  /// What the extension does in a transaction.
  associatedtype Transaction: ExtensionTransaction where Transaction.Definition == Self
  /// What all transactions share, in memory: sums for readers, the head of a queue. It stands at the last acknowledged
  /// commit. Default nothing, which costs nothing.
  associatedtype Shared: Sendable = Void
  /// What one commit means for `Shared`. Default `Never`: nothing.
  associatedtype Delta: Sendable = Never
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

  /// Makes what transactions share from the parts as of one commit. Exactly the deltas of the commits after it follow.
  /// Called once, at the registration; an error ends that.
  func makeShared(_ view: borrowing SharedView) throws -> Shared
  /// A commit was acknowledged: called once for each, in commit order, after it is as durable as was asked for, and before
  /// a reader sees it. `delta` is what the extension's transaction has said of it; nil where the commit has not asked for
  /// the extension.
  ///
  /// On the thread that acknowledges, while other commits wait to be acknowledged: it may not wait, and may not call the
  /// database. Readers of an earlier commit read the parts.
  func didAcknowledge(_ version: CommitVersion, _ delta: Delta?, _ shared: Shared)
  /// The shared state has to move to a commit for which there are no deltas: in a program that only reads, and when the
  /// extension is built again.
  func didSkip(to view: borrowing SharedView, _ shared: Shared) throws

  /// The memory, in bytes, that what one commit means for observers takes, allocations included. Connections hold change
  /// sets up to 4 MiB of it. Nil, the default: as much as the rows of the change set.
  ///
  /// Called once for each `Changes` that `takeChanges` returns, on the thread of the commit.
  func byteCount(of changes: Changes) -> Int?
}

extension DatabaseExtension where Shared == Void {
  /// Nothing is shared.
  public func makeShared(_ view: borrowing SharedView) throws {}
}

extension DatabaseExtension {
  /// Beside any.
  public func check(registered: [String: any DatabaseExtension]) throws {}
  /// Nothing.
  public func didAcknowledge(_ version: CommitVersion, _ delta: Delta?, _ shared: Shared) {}
  /// Nothing.
  public func didSkip(to view: borrowing SharedView, _ shared: Shared) throws {}
  /// As much as the rows.
  public func byteCount(of changes: Changes) -> Int? { nil }

  /// The memory of changes that its transaction has said.
  func countedBytes(of changes: any Sendable) -> Int? { (changes as? Changes).flatMap { byteCount(of: $0) } }
}
