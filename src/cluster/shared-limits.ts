/** Limits that hold for all nodes that share a database together: each node gets an equal part of them. */
import type { Membership } from './membership.js'
import type { Settings } from '../settings/settings.js'

type Limits = Pick<Settings, 'number' | 'onChange'>

const sharedLimits = /^max_(?:client|server)_(?:down|up)load_speed$|_task_threads_num$/

/**
 * The settings, with the speeds and the numbers of concurrent tasks divided by the number of living nodes. A change of
 * that number is reported as a change of a setting.
 */
export function withSharedLimits(settings: Limits, nodes: Pick<Membership, 'count' | 'onCountChange'>): Limits {
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
