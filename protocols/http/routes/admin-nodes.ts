/** The daemons that share the database. An extension of this gateway, described in docs/api.md. */
import { z } from 'zod'
import { endpoint } from '../api/endpoint.js'
import { wireTime } from '../compat/object.js'
import { timestamp } from '../api/schemas.js'

const nodeData = z
  .object({
    id: z.string().describe('The name of the run: a daemon that is restarted is another node.'),
    name: z.string().describe('The host, and the process on it.').meta({ example: 'files-1:4711' }),
    version: z.string().meta({ example: 'v0.1.0' }),
    addresses: z.record(z.string(), z.string()).describe('`HOST:PORT` or `off`, by protocol.'),
    started: timestamp,
    heartbeat_age: z.int().describe('Seconds since the last heartbeat. With SQLite, a node sends one when it starts.'),
    state: z
      .enum(['current', 'silent', 'ended'])
      .describe('`silent`: it has sent no heartbeat for 15 seconds, and answers nothing until it has sent one.'),
    tasks: z.int().describe('Running tasks, as of the last heartbeat.'),
    transfers: z.int().describe('Open transfers of file content, as of the last heartbeat.'),
    self: z.boolean().describe('Whether it has answered this request.'),
  })
  .meta({ id: 'Node' })

export const adminNodeEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/nodes',
    tag: 'Process',
    summary: 'List the nodes: the daemons that share the database, in the order of their starts',
    description: 'Those that are alive, and those that ended within an hour. With SQLite there is one.',
    access: 'admin',
    data: z.array(nodeData).readonly(),
    async answer({ api: { gateway } }) {
      const { cluster } = gateway
      return (await cluster.status()).map(({ id, name, version, addresses, started, ...node }) => ({
        id,
        name,
        version,
        addresses: { ...addresses },
        started: wireTime(started),
        heartbeat_age: node.heartbeatAge,
        state: node.state,
        tasks: node.working.tasks ?? 0,
        transfers: node.working.transfers ?? 0,
        self: id === cluster.instance.name,
      }))
    },
  }),
]
