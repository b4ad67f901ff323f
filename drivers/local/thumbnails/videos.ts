/** Creates thumbnails of videos with the programs `ffprobe` and `ffmpeg`. Each is run once per file. */
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { GatewayError } from '../../../src/base/errors.js'
import { spawnLimited } from './limited-process.js'

/** Position of the frame: in seconds, or as a fraction of the duration. */
export interface VideoPosition {
  readonly seconds?: number
  readonly fraction?: number
}

/** Milliseconds that one program may run. */
const runTimeout = 10_000
/** Seconds of processor time of one program. */
const processorTime = 10
const maxOutput = 4 * 1024 * 1024
/** Maximum number of pixels of one frame. */
const maxPixels = 100_000_000

/** Accepted container formats. Playlists are excluded, because they make a program open the files that they name. */
const containers = [
  ...['mov', 'mp4', 'm4a', '3gp', '3g2', 'mj2', 'matroska', 'webm', 'avi', 'flv', 'asf', 'mpegts', 'mpeg', 'rm', 'ogg'],
  ...['mpegvideo', 'h264', 'hevc', 'ivf', 'wtv', 'nut', 'mxf', 'dv'],
].join(',')

/** The file is passed as descriptor 3, so that its name does not appear on a command line. */
const input = process.platform === 'linux' ? 'file:/proc/self/fd/3' : 'file:/dev/fd/3'
const inputLimits = ['-protocol_whitelist', 'file', '-format_whitelist', containers, '-max_pixels', String(maxPixels)]

/** Quality of the JPEG, from 2 (best) to 31. */
const quality = 4

/**
 * A filter that lets a frame fit into a square of so many pixels. A smaller frame keeps its size. `dar`: width by
 * height of what is shown, which differs from that of the pixels if these are not square.
 */
function scaleTo(size: number): string {
  const longer = `min(${size},max(iw*sar,ih))`
  const [width, height] = ['dar', '1/dar'].map((part) => `'max(1,round(${longer}*min(1,${part})))'`)
  return `scale=w=${width}:h=${height}:flags=lanczos,setsar=1`
}

/** Parses a percentage from `0%` to `100%`, or seconds. Undefined for anything else. */
export function parsePosition(text: string): VideoPosition | undefined {
  const [, digits, percent] = /^(\d{1,9}(?:\.\d{1,9})?) *(%?)$/.exec(text.trim()) ?? []
  if (digits === undefined) return undefined
  if (percent === '') return { seconds: Number(digits) }
  return Number(digits) <= 100 ? { fraction: Number(digits) / 100 } : undefined
}

/** Whether `ffmpeg` and `ffprobe` are installed. */
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

/**
 * Creates a JPEG that fits into a square of `size` pixels. Rejects with `invalid` if the file is not a video, with
 * `timeout`, and with `aborted`.
 */
export async function videoThumbnail(
  fd: number,
  position: VideoPosition,
  size: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const seconds = position.seconds ?? (position.fraction ?? 0) * (await durationOf(fd, signal))
  const picture = await frameAt(fd, seconds, size, signal)
  if (picture.length > 0) return picture
  // The video is shorter than its metadata states: uses the first frame.
  const first = seconds > 0 ? await frameAt(fd, 0, size, signal) : picture
  if (first.length > 0) return first
  throw invalidVideo()
}

/** The duration in seconds; 0 if unknown. */
async function durationOf(fd: number, signal: AbortSignal): Promise<number> {
  const args = ['-v', 'error', ...inputLimits, '-show_entries', 'format=duration', '-of', 'csv=p=0', input]
  const { output, ok } = await run('ffprobe', args, fd, signal)
  if (!ok) throw invalidVideo()
  const duration = Number(output.toString())
  return Number.isFinite(duration) && duration > 0 ? duration : 0
}

/** The frame as JPEG; empty if there is none. */
async function frameAt(fd: number, seconds: number, size: number, signal: AbortSignal): Promise<Buffer> {
  const inputArgs = [...inputLimits, '-threads', '1', '-ss', seconds.toFixed(3), '-noaccurate_seek', '-i', input]
  const streams = ['-map', '0:v:0', '-an', '-sn', '-dn', '-map_metadata', '-1']
  const filters = ['-filter_threads', '1', '-vf', scaleTo(size), '-pix_fmt', 'yuvj420p']
  const encoder = ['-frames:v', '1', '-threads', '1', '-c:v', 'mjpeg', '-q:v', String(quality)]
  const outputArgs = [...streams, ...filters, ...encoder, '-f', 'image2pipe', 'pipe:1']
  const args = ['-v', 'error', '-nostdin', ...inputArgs, ...outputArgs]
  const { output, ok } = await run('ffmpeg', args, fd, signal)
  return ok ? output : Buffer.alloc(0)
}

interface RunResult {
  readonly ok: boolean
  readonly output: Buffer
}

function run(program: string, args: readonly string[], fd: number, signal: AbortSignal): Promise<RunResult> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new GatewayError('aborted'))
      return
    }
    const child = spawnLimited(program, args, { processorTime, stdio: ['ignore', 'pipe', 'ignore', fd] })
    let failure: GatewayError | undefined
    const stop = (error: GatewayError) => {
      failure ??= error
      child.kill('SIGKILL')
    }
    const onAbort = () => stop(new GatewayError('aborted'))
    const onTimeout = () => stop(new GatewayError('timeout', { reason: 'a thumbnail of this video takes too long' }))
    const timer = setTimeout(onTimeout, runTimeout)
    signal.addEventListener('abort', onAbort, { once: true })
    const chunks: Buffer[] = []
    let size = 0
    child.stdout?.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      size += chunk.length
      if (size > maxOutput) stop(invalidVideo())
    })
    const finish = (callback: () => void) => {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
      callback()
    }
    child.once('error', (error) => {
      finish(() => reject(failure ?? notRunnable(program, error)))
    })
    // On `close` instead of `exit`: the program has ended, its output is complete, and the descriptor may be closed.
    child.once('close', (status) => {
      if (status === missingProgram) failure ??= notRunnable(program)
      finish(() => (failure ? reject(failure) : resolve({ ok: status === 0, output: Buffer.concat(chunks) })))
    })
  })
}

/** The exit status of `spawnLimited`. */
const missingProgram = 127

function notRunnable(program: string, cause?: Error): GatewayError {
  return new GatewayError('unavailable', { reason: `${program} cannot be run`, cause })
}

function invalidVideo(): GatewayError {
  return new GatewayError('invalid', { reason: 'no thumbnail can be made of this video' })
}
