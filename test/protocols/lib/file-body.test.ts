/** The memory for responses to clients that do not read is limited. */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { MemoryDriver } from '../../../drivers/memory/memory.js'
import { sendPart } from '../../../protocols/lib/file-body.js'
import { asPath } from '../../../src/base/path.js'
import { sourceOf } from '../../tree/tree-fixture.js'

void t.test('the memory for clients that do not read is limited, and released when they disconnect', async (t) => {
  const content = Buffer.alloc(2 * 1024 * 1024, 'x')
  const whole = { offset: 0, length: content.length }
  const lent = new Set<ArrayBufferLike>()
  const driver = new MemoryDriver(0)
  const path = asPath('/file.bin')
  await driver.write(path, sourceOf(content))
  const open = async () => {
    const file = await driver.open(path, 'read')
    const read = (into: Buffer, position: number) => {
      lent.add(into.buffer)
      return file.read(into, position)
    }
    return { entry: file.entry, read, close: () => file.close() }
  }
  const round = async (count: number) => {
    lent.clear()
    // Without a connection, written bytes are never consumed.
    const responses = Array.from({ length: count }, () => new ServerResponse(new IncomingMessage(new Socket())))
    const sending = responses.map(async (response) => sendPart(await open(), whole, response))
    const ended = Promise.allSettled(sending)
    await delay(500)
    const mebibytes = [...lent].reduce((sum, { byteLength }) => sum + byteLength, 0) / 1024 / 1024
    for (const response of responses) response.emit('close')
    for (const each of await ended) t.equal(each.status, 'rejected')
    return mebibytes
  }
  t.equal(await round(1), 1.5, 'a single client has large buffers')
  const many = await round(200)
  t.ok(many < 100, `200 hold ${many} MiB`)
  t.equal(await round(1), 1.5, 'the memory is released')
})
