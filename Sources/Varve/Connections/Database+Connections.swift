extension Database {
  /// Makes a connection with a cache for so many objects. Default 250; zero: none.
  public func connection(cacheLimit: Int = 250) -> Connection { Connection(core, cacheLimit: cacheLimit) }

  /// The snapshots that connections hold, and for how long, the oldest first.
  public var longLivedReads: [(version: CommitVersion, age: Duration)] { core.longLivedReads.all }
}
