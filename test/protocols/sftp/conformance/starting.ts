/** INIT and VERSION (draft §4), and the announced extensions. */
import { types, uint32, string } from '../packet-client.js'
import { all, check, type Section } from './check.js'
import type { Ground } from './ground.js'

async function version(ground: Ground, asked: number, ...more: readonly Buffer[]): Promise<string> {
  return init(await ground.unbegun(), asked, ...more)
}

/** Sends INIT with these fields after the version. Resolves to the next packet from the server, as text. */
async function init(client: Ground['client'], asked: number, ...more: readonly Buffer[]): Promise<string> {
  const body = Buffer.concat([Buffer.from([types.init]), uint32(asked), ...more])
  const told = new Promise<string>((resolve) => {
    client.channel.once('data', (chunk: Buffer) =>
      resolve(`packet ${chunk.readUInt8(4)}, version ${chunk.readUInt32BE(5)}`),
    )
  })
  client.channel.write(Buffer.concat([uint32(body.length), body]))
  return told
}

export const starting: Section = {
  title: 'INIT and VERSION (draft 4)',
  checks: [
    check('INIT of version 3', 'packet 2, version 3', (ground) => version(ground, 3)),
    check('INIT of version 2', 'packet 2, version 3', (ground) => version(ground, 2)),
    check('INIT of version 6', 'packet 2, version 3', (ground) => version(ground, 6)),
    check('INIT of version 0', 'packet 2, version 3', (ground) => version(ground, 0)),
    check('INIT of version 4294967295', 'packet 2, version 3', (ground) => version(ground, 0xffffffff)),
    check('INIT with extensions of the client', 'packet 2, version 3', (ground) =>
      version(ground, 3, string('newline@vandyke.com'), string('\n')),
    ),
    check('A session after a second INIT', 'packet 2, version 3, folder', async (ground) => {
      return all(await init(ground.client, 3), ground.kind(''))
    }),
  ],
}
