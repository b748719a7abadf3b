#if canImport(Combine)
  public import Combine

  extension ReadObservation {
    /// The values as a publisher: what a closure reads for each subscriber, and again as it changes. An error ends it.
    public var publisher: AnyPublisher<Value, any Error> {
      Deferred {
        // It keeps the newest value until the subscriber asks for one, so that the first is not lost. Safe: a subject takes
        // values from any thread.
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
