/** Small pictures of videos, made by the programs `ffprobe` and `ffmpeg`, each run once for one file. */
import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { GatewayError } from '../../../src/errors.js'

/** Where in a video its picture is taken: seconds, or a part of its length. */
export interface VideoPosition {
  readonly seconds?: number
  readonly part?: number
}

/** Milliseconds that one program may take. */
const timeLimit = 10_000
const outputLimit = 4 * 1024 * 1024
/** Those of one frame. */
const pixelLimit = 100_000_000

/** Containers of video alone: playlists and lists of files make a program open what somebody names in them. */
const containers = [
  ...['mov', 'mp4', 'm4a', '3gp', '3g2', 'mj2', 'matroska', 'webm', 'avi', 'flv', 'asf', 'mpegts', 'mpeg', 'rm', 'ogg'],
  ...['mpegvideo', 'h264', 'hevc', 'ivf', 'wtv', 'nut', 'mxf', 'dv'],
].join(',')

/** The file is the third descriptor of the program: no name of it reaches a command line. */
const input = process.platform === 'linux' ? 'file:/proc/self/fd/3' : 'file:/dev/fd/3'
const guards = ['-protocol_whitelist', 'file', '-format_whitelist', containers, '-max_pixels', String(pixelLimit)]

const scale = "scale=w=144:h='clip(round(144/dar),1,1440)':flags=lanczos,setsar=1"

/** `20%`, or seconds. Undefined for anything else: less than nothing, more than all of it. */
export function parsePosition(text: string): VideoPosition | undefined {
  const [, digits, percent] = /^(\d{1,9}(?:\.\d{1,9})?) *(%?)$/.exec(text.trim()) ?? []
  if (digits === undefined) return undefined
  if (percent === '') return { seconds: Number(digits) }
  return Number(digits) <= 100 ? { part: Number(digits) / 100 } : undefined
}

/** Whether both programs are installed. */
export async function canMakeVideos(): Promise<boolean> {
  const found = await Promise.all(['ffmpeg', 'ffprobe'].map(isInstalled))
  return found.every(Boolean)
}

async function isInstalled(program: string): Promise<boolean> {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(isAbsolute)
  const found = folders.map((folder) =>
    access(join(folder, program), constants.X_OK).then(
      () => true,
      () => false,
    ),
  )
  return (await Promise.all(found)).some(Boolean)
}

/** PNG. `invalid` for what is no video, `timeout` for what takes too long; an abort ends the program. */
export async function videoThumbnail(fd: number, position: VideoPosition, signal: AbortSignal): Promise<Buffer> {
  const seconds = position.seconds ?? (position.part ?? 0) * (await durationOf(fd, signal))
  const picture = await frameAt(fd, seconds, signal)
  if (picture.length > 0) return picture
  // It is shorter than it was said to be.
  const first = seconds > 0 ? await frameAt(fd, 0, signal) : picture
  if (first.length > 0) return first
  throw noVideo()
}

/** Seconds; 0 where the file does not tell. */
async function durationOf(fd: number, signal: AbortSignal): Promise<number> {
  const words = ['-v', 'error', ...guards, '-show_entries', 'format=duration', '-of', 'csv=p=0', input]
  const { output, ok } = await run('ffprobe', words, fd, signal)
  if (!ok) throw noVideo()
  const duration = Number(output.toString())
  return Number.isFinite(duration) && duration > 0 ? duration : 0
}

/** Empty where there is none. */
async function frameAt(fd: number, seconds: number, signal: AbortSignal): Promise<Buffer> {
  const reading = [...guards, '-threads', '1', '-ss', seconds.toFixed(3)]
  const writing = ['-frames:v', '1', '-vf', scale, '-threads', '1', '-c:v', 'png', '-f', 'image2pipe', 'pipe:1']
  const streams = ['-map', '0:v:0', '-an', '-sn', '-dn']
  const words = ['-v', 'error', '-nostdin', ...reading, '-noaccurate_seek', '-i', input, ...streams, ...writing]
  const { output, ok } = await run('ffmpeg', words, fd, signal)
  return ok ? output : Buffer.alloc(0)
}

interface Ran {
  readonly ok: boolean
  readonly output: Buffer
}

function run(program: string, words: readonly string[], fd: number, signal: AbortSignal): Promise<Ran> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new GatewayError('aborted'))
      return
    }
    const child = spawn(program, words, {
      stdio: ['ignore', 'pipe', 'ignore', fd],
      cwd: '/',
      // Nothing of what the daemon was told in secret is its business.
      env: { PATH: process.env.PATH ?? '' },
    })
    let failure: GatewayError | undefined
    const stop = (error: GatewayError) => {
      failure ??= error
      child.kill('SIGKILL')
    }
    const onAbort = () => stop(new GatewayError('aborted'))
    const late = () => stop(new GatewayError('timeout', { reason: 'a thumbnail of this video takes too long' }))
    const timer = setTimeout(late, timeLimit)
    signal.addEventListener('abort', onAbort, { once: true })
    const chunks: Buffer[] = []
    let size = 0
    child.stdout?.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > outputLimit) stop(noVideo())
    })
    const end = (settle: () => void) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      settle()
    }
    child.once('error', (error) => {
      end(() =>
        reject(failure ?? new GatewayError('unavailable', { reason: `${program} cannot be run`, cause: error })),
      )
    })
    // Not `exit`: the descriptor may be closed only when the program is gone, and its output is all there then.
    child.once('close', (status) => {
      end(() => (failure ? reject(failure) : resolve({ ok: status === 0, output: Buffer.concat(chunks) })))
    })
  })
}

function noVideo(): GatewayError {
  return new GatewayError('invalid', { reason: 'no thumbnail can be made of this video' })
}
