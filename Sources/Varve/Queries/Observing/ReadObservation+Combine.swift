#if canImport(Combine)
  public import Combine

  extension ReadObservation {
    /// A publisher of the values: the current result of the closure for each subscriber, and further ones as it
    /// changes. An error ends it.
    public var publisher: AnyPublisher<Value, any Error> {
      Deferred {
        // The subject keeps the newest value until the subscriber requests one, so that the first is not lost. It is
        // safe because a subject accepts values from any thread.
        nonisolated(unsafe) let subject = CurrentValueSubject<Value?, any Error>(nil)
        let task = Task {
          do {
            for try await value in self { unsafe subject.send(value) }
            unsafe subject.send(completion: .finished)
          } catch {
            unsafe subject.send(completion: .failure(error))
          }
        }
        return unsafe subject.compactMap { $0 }.buffer(size: 1, prefetch: .byRequest, whenFull: .dropOldest)
          .handleEvents(receiveCancel: { task.cancel() })
      }.eraseToAnyPublisher()
    }
  }
#endif
