#if Service
  public import Instrumentation
  public import Tracing
  public import Varve
  public import VarveTasks

  /// Traces tasks with swift-distributed-tracing: each attempt is a span that continues the trace in which its task was
  /// enqueued.
  ///
  /// The context is stored in `TaskOptions.headers`. Safe from any thread.
  public struct TaskTracing: TaskMiddleware {
    private let tracer: any Tracer

    /// Creates a middleware that uses a tracer, by default the program's tracer.
    public init(tracer: any Tracer = InstrumentationSystem.tracer) { self.tracer = tracer }

    private struct Carrier: Injector, Extractor {
      func inject(_ value: String, forKey key: String, into carrier: inout [String: String]) { carrier[key] = value }
      func extract(key: String, from carrier: [String: String]) -> String? { carrier[key] }
    }

    /// Stores the caller's context in the task's headers.
    public func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {
      guard let context = ServiceContext.current else { return }
      tracer.inject(context, into: &options.headers, using: Carrier())
    }

    /// Runs an attempt in a span.
    public func run(_ context: TaskContext, _ next: NextHandler) async throws
      -> TaskOutcome
    {
      var parent = ServiceContext.topLevel
      tracer.extract(context.headers, into: &parent, using: Carrier())
      return try await tracer.withAnySpan("task \(context.kind)", context: parent, ofKind: .consumer) { span in
        span.attributes["task.id"] = "\(context.id)"
        span.attributes["task.kind"] = context.kind
        span.attributes["task.queue"] = context.queue.text
        span.attributes["task.attempt"] = context.attempt
        do { return try await next() } catch {
          span.recordError(error)
          throw error
        }
      }
    }
  }
#endif
