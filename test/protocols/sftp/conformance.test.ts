/**
 * The conformance suite: every check runs against OpenSSH's server, which must respond as the check says, and against
 * Tidegate on several storages, which must respond likewise or as the table in docs/sftp.md says.
 */
import { existsSync } from 'node:fs'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import type { Check } from './conformance/check.js'
import { expected, readDifferences } from './conformance/differences.js'
import { Ground } from './conformance/ground.js'
import { sections } from './conformance/sections.js'
import { openssh, opensshServer, tidegate, type Server } from './conformance/servers.js'
import { names, noAttributes, string, type PacketClient } from './packet-client.js'

t.jobs = 1

const differences = await readDifferences()
const checks = sections.flatMap((section) => section.checks)

void t.test('check titles are unique, and the table of differences names existing checks', async (t) => {
  const titles = checks.map(({ title }) => title)
  t.same(titles, [...new Set(titles)], 'the titles of checks are unique')
  for (const { check, openssh, tidegate } of differences) {
    const meant = checks.find(({ title }) => title === check)
    t.ok(meant, `the suite has the check "${check}"`)
    t.equal(openssh, meant?.told, `${check}: the response of OpenSSH's server`)
    t.not(tidegate, openssh, `${check}: the responses differ`)
  }
})

const skip = process.env.CI !== 'true' && !existsSync(opensshServer) ? `not installed: ${opensshServer}` : false
void t.test("OpenSSH's sftp-server", { skip }, async (t) => runAll(t, await openssh(t)))
for (const storage of ['Local', 'Memory', 'streams alone'] as const) {
  void t.test(`Tidegate on ${storage}`, async (t) => runAll(t, await tidegate(t, storage)))
}

async function runAll(t: Test, server: Server): Promise<void> {
  const owner = await server.connect()
  await owner.start()
  let count = 0
  for (const { title, checks } of sections) {
    await t.test(title, async (t) => {
      for (const check of checks) {
        if (check.needs === 'symlinks' && server.kinds.includes('without symlinks')) continue
        await t.test(check.title, async (t) => {
          const folder = `${server.root}/${count++}`
          await owner.status(names.mkdir, string(folder), noAttributes)
          t.equal(await answerOf(server, check, folder), expected(check, server, differences))
        })
      }
    })
  }
  owner.channel.end()
}

/** Each check has its own session, because some end theirs. */
async function answerOf(server: Server, check: Check, folder: string): Promise<string> {
  const clients: PacketClient<Duplex>[] = []
  const connect = async (readOnly = false) => {
    const client = await server.connect(readOnly)
    clients.push(client)
    return client
  }
  const begin = async (readOnly = false): Promise<Ground> => {
    const client = await connect(readOnly)
    await client.start()
    return new Ground(client, folder, () => begin(), connect)
  }
  try {
    return await check.run(await begin(check.readOnly))
  } finally {
    for (const client of clients) client.channel.end()
  }
}
