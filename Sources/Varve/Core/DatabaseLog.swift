internal import Logging

/// The database's log messages: few, and only those that need attention.
enum DatabaseLog {
  private static let logger = Logger(label: "varve.database")

  /// A transaction held the writer for long.
  static func slowTransaction(path: String, label: String?, taken: Duration) {
    logger.warning(
      "a transaction held the writer for long",
      metadata: ["database": "\(path)", "label": "\(label ?? "none")", "taken": "\(taken)"])
  }

  /// Hooks make many changes in one transaction, perhaps because they write to each other without end.
  static func manyHookChanges(path: String, label: String?, count: Int) {
    logger.warning(
      "hooks make many changes in one transaction",
      metadata: ["database": "\(path)", "label": "\(label ?? "none")", "changes": "\(count)"])
  }

  /// A damaged database was put aside.
  static func replaced(path: String, aside: String, saves: Bool, _ error: any Error) {
    logger.error(
      "the database is damaged; \(saves ? "what can be read of it" : "an empty one") has replaced it",
      metadata: ["database": "\(path)", "aside": "\(aside)", "error": "\(error)"])
  }

  /// A salvage has kept rows whose collections are unknown, so that they can't be read.
  static func rowsWithoutCollection(count: Int64) {
    logger.error(
      "the catalog has lost collections that have rows; the damaged database still has what can be found of them",
      metadata: ["rows": "\(count)"])
  }

  /// The feed of changes can't be read, and is restarted empty.
  static func damagedFeed(_ error: any Error) {
    logger.error("the feed of changes is damaged; it starts again", metadata: ["error": "\(error)"])
  }

  /// A range of the feed can't be read, and its readers receive a gap.
  static func feedGap(_ error: any Error, path: String, from: CommitVersion, to: CommitVersion) {
    logger.error(
      "the feed of changes is damaged; the unreadable part is reported as a gap",
      metadata: ["database": "\(path)", "from": "\(from)", "to": "\(to)", "error": "\(error)"])
  }

  /// Blocks of the catalog were given up.
  static func catalogGivenUp(path: String) {
    logger.warning(
      "blocks of the catalog were given up: collections may be unknown now, and look empty",
      metadata: ["database": "\(path)"])
  }

  /// The changes that an extension missed can't be read from the feed.
  static func unreadableFeed(_ error: any Error, name: String) {
    logger.error(
      "the feed of changes is damaged; the extension is rebuilt",
      metadata: ["extension": "\(name)", "error": "\(error)"])
  }

  /// An extension does something in its build that a build by tables does not support.
  static func builtByPuts(name: String, reason: String) {
    logger.info(
      "an extension can't be built by tables, and is built by puts",
      metadata: ["extension": "\(name)", "reason": "it \(reason)"])
  }

  /// An extension on disk was not registered before the first commit.
  static func staleExtension(path: String, name: String) {
    logger.notice(
      "an extension of the database is not registered, and stale from now on",
      metadata: ["database": "\(path)", "extension": "\(name)"])
  }

  /// What an extension keeps was made consistent after damaged blocks were given up.
  static func repairedExtension(path: String, name: String, _ findings: [String: Int]) {
    let text = findings.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: ", ")
    logger.notice(
      "an extension was made consistent after a repair of the database",
      metadata: ["database": "\(path)", "extension": "\(name)", "found": "\(text)"])
  }

  /// What an extension keeps could not be made consistent, because a block can't be read.
  static func unrepairedExtension(_ error: any Error, path: String, name: String) {
    logger.error(
      "an extension could not be made consistent after a repair of the database; the next open tries it again",
      metadata: ["database": "\(path)", "extension": "\(name)", "error": "\(error)"])
  }

  /// A run of a counted part had another number of entries than was counted.
  static func miscountedRun(path: String, family: String) {
    logger.warning(
      "a count of entries was wrong, and was made again",
      metadata: ["database": "\(path)", "family": "\(family)"])
  }

  /// A collection whose changes an extension receives has no definition.
  static func undefinedType(path: String, collection: String) {
    logger.notice(
      "an extension is notified of a collection that the program has not defined",
      metadata: ["database": "\(path)", "collection": "\(collection)"])
  }

  /// The shared state of an extension whose build has failed could not be emptied.
  static func sharedStateFailure(_ error: any Error, name: String) {
    logger.error(
      "the shared state of an extension whose build has failed could not be emptied",
      metadata: ["extension": "\(name)", "error": "\(error)"])
  }

  /// The shared state of an extension took long to receive a commit. The time is wall-clock time, which also passes
  /// while the thread is not running.
  static func slowAcknowledge(name: String, taken: Duration) {
    logger.warning(
      "more than 20 milliseconds passed until an extension had received an acknowledged commit, for which other commits wait",
      metadata: ["extension": "\(name)", "taken": "\(taken)"])
  }
}
