/** When an idle daemon collects garbage, and that its memory is then returned to the system. */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { IdleCollector } from '../../src/process/garbage-collection.js'
import { startDaemon } from '../gateway.js'

const mebibyte = 1024 * 1024

function observed() {
  const state = { cpuTime: 0, resident: 100 * mebibyte, collections: 0 }
  const collector = new IdleCollector({
    cpuTime: () => state.cpuTime,
    resident: () => state.resident,
    collect: () => {
      state.collections++
      state.cpuTime += 300_000 // its own time does not count
    },
  })
  const look = (times = 1) => {
    for (let count = 0; count < times; count++) collector.look()
    return state.collections
  }
  return { state, look }
}

void t.test('an idle process collects twice after its memory has grown, and then no more', async (t) => {
  const { state, look } = observed()
  t.equal(look(4), 0, 'the pause may end soon')
  t.equal(look(), 1)
  state.resident = 60 * mebibyte
  t.equal(look(10), 2)
  state.resident = 75 * mebibyte
  t.equal(look(10), 2, 'the growth is not worth it')
  state.resident = 76 * mebibyte
  t.equal(look(10), 4)
})

void t.test('a busy process does not collect', async (t) => {
  const { state, look } = observed()
  const busyLook = () => {
    state.cpuTime += 250_000
    return look()
  }
  for (let count = 0; count < 10; count++) busyLook()
  t.equal(state.collections, 0)
  t.equal(look(5), 1)
  t.equal(busyLook(), 1, 'the second collection waits for the next idle time')
  t.equal(look(20), 1, 'the memory has not grown since')
})

void t.test('a daemon that has worked returns memory within a minute', async (t) => {
  const { adminPassword, dataFolder, davUrl, pid } = await startDaemon(t)
  const files = join(dataFolder, 'files')
  for (let number = 0; number < 20_000; number++) writeFileSync(join(files, `file-${number}`), '')
  const resident = async () => {
    const [, kibibytes] = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kibibytes) / 1024
  }
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  const list = () => fetch(davUrl, { method: 'PROPFIND', headers: { authorization, depth: '1' } })
  for (let count = 0; count < 5; count++) t.ok((await (await list()).arrayBuffer()).byteLength > 20_000)
  const busy = await resident()
  let idle = busy
  for (let second = 0; second < 60 && idle > busy - 16; second++) {
    await wait(1000)
    idle = await resident()
  }
  t.ok(idle <= busy - 16, `${busy} MiB, then ${idle} MiB`)
})
