/** Limits that hold for all nodes that share a database together: each node gets an equal part of them. */
import type { Cluster, Limits } from './cluster.js'

const sharedLimits = /^max_(?:client|server)_(?:down|up)load_speed$|_task_threads_num$/

/**
 * The settings, with the speeds and the numbers of concurrent tasks divided by the number of living nodes. A change of
 * that number is reported as a change of a setting.
 */
export function sharedBy(nodes: Pick<Cluster, 'count' | 'onCountChange'>, settings: Limits): Limits {
  return {
    number: (key) => settings.number(key) / (sharedLimits.test(key) ? nodes.count : 1),
    onChange: (listener) => {
      const unsubscribers = [settings.onChange(listener), nodes.onCountChange(listener)]
      return () => {
        for (const unsubscribe of unsubscribers) unsubscribe()
      }
    },
  }
}
