/** What a client sends beyond the window of its channel is not kept. */
import { Readable } from 'node:stream'
import t from 'tap'
import { enforceWindow } from '../../../protocols/sftp/connection.js'

void t.test('data within the window is passed on, and more is reported and dropped', async (t) => {
  const incoming = { window: 10 }
  const channel = Object.assign(new Readable({ read: () => undefined }), { incoming })
  let exceeded = 0
  let received = 0
  enforceWindow(channel, { exceeded: () => exceeded++, received: () => received++ })
  // ssh2 subtracts the length before it passes the data on.
  const receive = (bytes: Buffer) => {
    incoming.window -= bytes.length
    channel.push(bytes)
  }
  receive(Buffer.alloc(10))
  t.same([exceeded, received], [0, 1])
  t.equal(channel.readableLength, 10)
  receive(Buffer.alloc(7))
  t.same([exceeded, received], [1, 1])
  t.equal(channel.readableLength, 10)
})
