extension Database {
  /// Creates a connection with a cache for `cacheLimit` objects. The default is 250; zero disables the cache.
  public func connection(cacheLimit: Int = 250) -> Connection { Connection(core, cacheLimit: cacheLimit) }

  /// The snapshots that connections hold, with their ages, the oldest first.
  public var longLivedReads: [(version: CommitVersion, age: Duration)] { core.longLivedReads.all }
}
