/** `tidegate nodes` */
import type { Command } from 'commander'
import { thisInstance } from '../installation/instance.js'
import { isSilent, nodeStatuses } from '../cluster/node-rows.js'
import { inDataFolder, withCommonOptions, type CommonFlags } from './data-folder.js'
import { formatTable, print } from './output.js'

export function addNodesCommand(program: Command): void {
  withCommonOptions(program.command('nodes'))
    .description('list the daemons that share the database, and those that ended within an hour')
    .action((flags: CommonFlags) =>
      inDataFolder(flags, async ({ store }) => {
        const { isOver } = thisInstance()
        // Whether a process of this machine runs is known without heartbeats.
        const sendsHeartbeats = store.shared?.spansMachines === true
        const nodes = await nodeStatuses(store.nodes, sendsHeartbeats ? isSilent : ({ id }) => isOver(id) === true)
        const rows = nodes.map((node) => [
          ...[node.name, node.version, node.state, node.started.toISOString()],
          sendsHeartbeats ? `${node.heartbeatAge} s ago` : '',
          pairs(node.addresses),
          node.state === 'ended' ? '' : pairs(node.working),
        ])
        const columns = ['name', 'version', 'state', 'started', 'heartbeat', 'addresses', 'working on']
        print(flags, nodes.map(describe), formatTable(columns, rows))
      }),
    )
}

function pairs(values: Readonly<Record<string, string | number>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

function describe({ heartbeatAge, ...node }: Awaited<ReturnType<typeof nodeStatuses>>[number]) {
  return { ...node, heartbeat_age: heartbeatAge }
}
