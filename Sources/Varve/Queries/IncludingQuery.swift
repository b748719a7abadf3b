/// A query whose instances come with others that belong to them.
///
/// ```swift
/// let listed = try await books.query.filter { $0.year >= 2000 }
///   .including(.instance(\.authorID, from: authors), .instances(from: reviews, index: \.book))
///   .fetch()
/// for (book, author, reviews) in listed { print(book.title, author?.name ?? "", reviews.count) }
/// ```
///
/// All of them are read in one transaction. Each inclusion is one read of many rows, or a look into an index for each instance.
///
/// A value. Safe from any thread.
public struct IncludingQuery<Format: StoreFormat, each Included: Sendable>: Sendable {
  fileprivate let query: StoreQuery<Format>
  fileprivate let inclusions: (repeat QueryInclusion<Format, each Included>)

  /// The instances, each with what belongs to it. Throws what ``StoreQuery/fetch(in:)`` and the loads of the others throw.
  public func fetch(in tx: ReadTransaction) throws -> [(Format.Instance, repeat each Included)] {
    let instances = try query.fetch(in: tx)
    let lists = (repeat try (each inclusions).load(instances, tx))
    return instances.indices.map { index in (instances[index], repeat (each lists)[index]) }
  }

  /// The instances, each with what belongs to it.
  public func fetch() async throws -> [(Format.Instance, repeat each Included)] {
    try await query.store.database.read { tx in try fetch(in: tx) }
  }
}

extension StoreQuery {
  /// The instances, each with what several inclusions bring: `including(.instance(\.authorID, from: authors), ...)`.
  public func including<each Included>(
    _ inclusions: repeat QueryInclusion<Format, each Included>
  ) -> IncludingQuery<Format, repeat each Included> {
    IncludingQuery(query: self, inclusions: (repeat each inclusions))
  }

  /// The instances, each with the instance of another store whose identifier a field has; nil where there is none.
  public func including<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier> & Sendable, from other: Store<Other>
  ) -> IncludingQuery<Format, Other.Instance?> {
    including(.instance(path, from: other))
  }

  /// The instances, each with the instance of another store whose identifier an optional field has; nil where there is none.
  public func including<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier?> & Sendable, from other: Store<Other>
  ) -> IncludingQuery<Format, Other.Instance?> {
    including(.instance(path, from: other))
  }

  /// The instances, each with the instances of another store that name its identifier by an index, in the index's order.
  public func including<Other: StoreFormat, Index: StoreIndex>(
    from other: Store<Other>, index: any KeyPath<Other, Index> & Sendable
  ) -> IncludingQuery<Format, [Other.Instance]> where Index.Value == Compound<Format.Identifier> {
    including(.instances(from: other, index: index))
  }
}

/// What comes with the instances of a query: ``StoreQuery/including(_:)`` takes several.
public struct QueryInclusion<Format: StoreFormat, Included: Sendable>: Sendable {
  /// For many instances at once, in their order.
  fileprivate let load: @Sendable ([Format.Instance], ReadTransaction) throws -> [Included]

  /// The instance of another store whose identifier a field has; nil where there is none.
  public static func instance<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == Other.Instance? {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.map { $0[keyPath: path] }, tx)
      return instances.map { found[$0[keyPath: path]] }
    }
  }

  /// The instance of another store whose identifier an optional field has; nil where there is none.
  public static func instance<Other: StoreFormat>(
    _ path: any KeyPath<Format.Instance, Other.Identifier?> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == Other.Instance? {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.compactMap { $0[keyPath: path] }, tx)
      return instances.map { $0[keyPath: path].flatMap { found[$0] } }
    }
  }

  /// The instances of another store whose identifiers a field has, in its order; those that are not there are left out.
  public static func instances<Other: StoreFormat, IDs: Sequence<Other.Identifier> & SendableMetatype>(
    _ path: any KeyPath<Format.Instance, IDs> & Sendable, from other: Store<Other>
  ) -> QueryInclusion where Included == [Other.Instance] {
    QueryInclusion { instances, tx in
      let found = try other.found(instances.flatMap { Array($0[keyPath: path]) }, tx)
      return instances.map { $0[keyPath: path].compactMap { found[$0] } }
    }
  }

  /// The instances of another store that name an instance's identifier by an index, in the index's order.
  public static func instances<Other: StoreFormat, Index: StoreIndex>(
    from other: Store<Other>, index: any KeyPath<Other, Index> & Sendable
  ) -> QueryInclusion where Included == [Other.Instance], Index.Value == Compound<Format.Identifier> {
    QueryInclusion { instances, tx in
      try instances.map { try Array(try other.load(Format.identifier(of: $0), from: index, in: tx)) }
    }
  }
}

extension Store where Format: StoreFormat {
  /// Instances by their identifiers, read at once, each once.
  fileprivate func found(_ ids: [Format.Identifier], _ tx: ReadTransaction) throws -> [Format.Identifier: Instance] {
    let ids = Array(Set(ids))
    var found: [Format.Identifier: Instance] = [:]
    for (id, instance) in zip(ids, try load(ids: ids, in: tx)) { found[id] = instance }
    return found
  }
}
