/** Metrics of the gateway, in the text format of Prometheus. Labels have configured values only, never paths or users. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { version } from '../contract/version.js'
import type { Events } from '../storage/events.js'
import { mountStates, type Mounts } from '../storage/mounts.js'
import type { TransferEvent } from '../storage/transfer-meter.js'
import { taskKinds, taskStates } from '../tasks/task.js'
import type { Tasks } from '../tasks/tasks.js'

interface MetricsDependencies {
  readonly events: Pick<Events, 'onTransfer'>
  readonly tasks: Pick<Tasks, 'all'>
  readonly mounts: Pick<Mounts, 'states'>
}

/** In seconds. */
const durationBuckets = [0.1, 1, 10, 60, 600, 3600]

export class Metrics {
  readonly #registry = new Registry()
  #hasProcessMetrics = false

  constructor({ events, tasks, mounts }: MetricsDependencies) {
    const registers = [this.#registry]
    const labelNames = ['protocol', 'storage', 'direction', 'outcome'] as const
    const transfers = new Counter({
      name: 'tidegate_transfers_total',
      help: 'Transfers of file content that have ended. The protocol is "task" for tasks, the storage is its mount path.',
      labelNames,
      registers,
    })
    const bytes = new Counter({
      name: 'tidegate_transfer_bytes_total',
      help: 'Bytes of file content that these transfers read from storages or wrote to them.',
      labelNames,
      registers,
    })
    const duration = new Histogram({
      name: 'tidegate_transfer_duration_seconds',
      help: 'Duration of these transfers.',
      labelNames: ['protocol', 'direction'] as const,
      buckets: durationBuckets,
      registers,
    })
    const seriesOf = ({ by: protocol, storage: { mountPath: storage }, direction, outcome }: TransferEvent) => ({
      transfers: transfers.labels({ protocol, storage, direction, outcome }),
      bytes: bytes.labels({ protocol, storage, direction, outcome }),
      duration: duration.labels({ protocol, direction }),
    })
    // Looking up a series by its labels costs as much as the rest of a small transfer's bookkeeping.
    const known = new Map<string, ReturnType<typeof seriesOf>>()
    events.onTransfer((event: TransferEvent) => {
      const key = `${event.by} ${event.direction} ${event.outcome} ${event.storage.mountPath}`
      let series = known.get(key)
      if (!series) known.set(key, (series = seriesOf(event)))
      series.transfers.inc()
      series.bytes.inc(event.bytes)
      series.duration.observe(event.seconds)
    })
    new Gauge({
      name: 'tidegate_storages',
      help: 'Storages by status.',
      labelNames: ['status'] as const,
      registers,
      collect() {
        for (const status of mountStates) this.set({ status }, 0)
        for (const status of mounts.states()) this.inc({ status })
      },
    })
    new Gauge({
      name: 'tidegate_tasks',
      help: 'Tasks by kind and state, including finished ones that are still listed.',
      labelNames: ['kind', 'state'] as const,
      registers,
      collect() {
        for (const kind of taskKinds) for (const state of taskStates) this.set({ kind, state }, 0)
        for (const { kind, state } of tasks.all) this.inc({ kind, state })
      },
    })
    new Gauge({
      name: 'tidegate_build_info',
      help: 'Always 1. The version is a label.',
      labelNames: ['version'] as const,
      registers,
    }).set({ version }, 1)
  }

  /** The media type of `text`. */
  get contentType(): string {
    return this.#registry.contentType
  }

  text(): Promise<string> {
    // They need a timer that runs 100 times a second, so only a gateway that is monitored has them.
    if (!this.#hasProcessMetrics) collectDefaultMetrics({ register: this.#registry })
    this.#hasProcessMetrics = true
    return this.#registry.metrics()
  }
}
