/// A query that returns its instances together with related ones.
///
/// ```swift
/// let listed = try await books.query.filter { $0.year >= 2000 }
///   .including(.instance(\.authorID, from: authors), .instances(from: reviews, index: \.book))
///   .fetch()
/// for (book, author, reviews) in listed { print(book.title, author?.name ?? "", reviews.count) }
/// ```
///
/// All of them are read in one transaction. Each inclusion is one read of many rows, or one index lookup for each
/// instance.
///
/// A value. Safe from any thread.
public struct IncludingQuery<Format: StoreFormat, each Included: Sendable>: Sendable {
  fileprivate let query: StoreQuery<Format>
  fileprivate let inclusions: (repeat QueryInclusion<Format, each Included>)

  /// Returns the instances, each with its related values. Throws what ``StoreQuery/fetch(in:)`` and the loads of the
  /// others throw.
  public func fetch(in tx: ReadTransaction) throws -> [(Format.Instance, repeat each Included)] {
    let instances = try query.fetch(in: tx)
    let lists = (repeat try (each inclusions).load(instances, tx))
    return instances.indices.map { index in (instances[index], repeat (each lists)[index]) }
  }

  /// Returns the instances, each with its related values.
  public func fetch() async throws -> [(Format.Instance, repeat each Included)] {
    try await query.store.database.read { tx in try fetch(in: tx) }
  }
}

extension StoreQuery {
  /// Returns a query that adds the values of several inclusions to each instance: `including(.instance(\.authorID,
  /// from: authors), ...)`.
  public func including<each Included>(
    _ inclusions: repeat QueryInclusion<Format, each Included>
  ) -> IncludingQuery<Format, repeat each Included> {
    IncludingQuery(query: self, inclusions: (repeat each inclusions))
  }

  /// Returns a query that adds to each instance the instance of another store whose identifier a field has, or nil if
  /// it does not exist.
  public func including<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier> & Sendable, from other: Store<Other>
  ) -> IncludingQuery<Format, Other.Instance?> {
    including(.instance(path, from: other))
  }

  /// Returns a query that adds to each instance the instance of another store whose identifier an optional field has,
  /// or nil if it does not exist.
  public func including<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier?> & Sendable, from other: Store<Other>
  ) -> IncludingQuery<Format, Other.Instance?> {
    including(.instance(path, from: other))
  }

  /// Returns a query that adds to each instance the instances of another store whose index has its identifier, in the
  /// index's order.
  public func including<Other: StoreFormat, Index: StoreIndex>(
    from other: Store<Other>, index: any KeyPath<Other, Index> & Sendable
  ) -> IncludingQuery<Format, [Other.Instance]> where Index.Value == Compound<Format.Identifier> {
    including(.instances(from: other, index: index))
  }
}

/// A relation whose values are added to the instances of a query: ``StoreQuery/including(_:)`` takes several.
public struct QueryInclusion<Format: StoreFormat, Included: Sendable>: Sendable {
  /// Loads the related values of many instances at once, in their order.
  fileprivate let load: @Sendable ([Format.Instance], ReadTransaction) throws -> [Included]

  /// Includes the instance of another store whose identifier a field has, or nil if it does not exist.
  public static func instance<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == Other.Instance? {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.map { $0[keyPath: path] }, tx)
      return instances.map { found[$0[keyPath: path]] }
    }
  }

  /// Includes the instance of another store whose identifier an optional field has, or nil if it does not exist.
  public static func instance<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier?> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == Other.Instance? {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.compactMap { $0[keyPath: path] }, tx)
      return instances.map { $0[keyPath: path].flatMap { found[$0] } }
    }
  }

  /// Includes the instances of another store whose identifiers a field has, in its order. Missing instances are left
  /// out.
  public static func instances<Other: StoreFormat, IDs: Sequence<Other.Identifier> & SendableMetatype>(
    _ path: any KeyPath<Format.Instance, IDs> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == [Other.Instance] {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.flatMap { Array($0[keyPath: path]) }, tx)
      return instances.map { $0[keyPath: path].compactMap { found[$0] } }
    }
  }

  /// Includes the instances of another store whose index has the instance's identifier, in the index's order.
  public static func instances<Other: StoreFormat, Index: StoreIndex>(
    from other: Store<Other>, index: any KeyPath<Other, Index> & Sendable
  ) -> QueryInclusion where Included == [Other.Instance], Index.Value == Compound<Format.Identifier> {
    QueryInclusion { instances, tx in
      try instances.map { try Array(try other.load(.value(Format.identifier(of: $0)), from: index, in: tx)) }
    }
  }
}

extension Store where Format: StoreFormat {
  /// Returns instances by their identifiers. All are read at once, and each is read once.
  fileprivate func found(_ ids: [Format.Identifier], _ tx: ReadTransaction) throws -> [Format.Identifier: Instance] {
    let ids = Array(Set(ids))
    var found: [Format.Identifier: Instance] = [:]
    for (id, instance) in zip(ids, try load(ids: ids, in: tx)) { found[id] = instance }
    return found
  }
}
