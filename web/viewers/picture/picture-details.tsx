/** What is known of a picture: of its file, and what the camera has written into it. */
import { useQuery } from '@tanstack/preact-query'
import { keys } from '../../api/keys.ts'
import { formatSize, formatTime } from '../../texts/format.ts'
import { textsOf } from '../../texts/texts.ts'
import { firstBytes } from '../bytes.ts'
import type { ShownFile } from '../file-page.tsx'
import { dimensionsIn } from './dimensions.ts'
import { cameraDetailsIn, searchedBytes, type CameraDetails } from './exif.ts'
import type { Size } from './zoom.ts'
import './picture-details.css'

const texts = textsOf('common', 'files', 'pictures')

interface PictureDetailsProps {
  readonly path: string
  readonly file: ShownFile
  /** The URL of the file. */
  readonly source: string
  /** Undefined until it is loaded itself. */
  readonly picture: Size | undefined
}

export function PictureDetails({ path, file, source, picture }: PictureDetailsProps) {
  const { data, isPending } = useQuery({
    queryKey: keys.pictureDetails(path),
    queryFn: async ({ signal }) => detailsIn(await firstBytes(source, searchedBytes, signal)),
    retry: false,
  })
  const { pictures, files } = texts
  const size = picture ?? data?.size
  const facts: Readonly<Record<string, string | undefined>> = {
    [files.size]: formatSize(file.size),
    [pictures.dimensions]: size && pictures.pixels(size.width, size.height),
    [files.modified]: formatTime(file.modified),
    ...(data && factsOf(data.camera)),
  }
  return (
    <aside class="picture-details" aria-label={pictures.details} aria-busy={isPending} tabIndex={0}>
      <h2>{pictures.details}</h2>
      <dl>
        {Object.entries(facts).map(
          ([name, value]) =>
            value !== undefined &&
            value !== '' && (
              <div key={name}>
                <dt class="muted">{name}</dt>
                <dd>{value}</dd>
              </div>
            ),
        )}
      </dl>
    </aside>
  )
}

function detailsIn(bytes: Uint8Array): { readonly camera: CameraDetails; readonly size: Size | undefined } {
  const [camera, stored] = [cameraDetailsIn(bytes), dimensionsIn(bytes)]
  const size = stored && camera.isOnSide ? { width: stored.height, height: stored.width } : stored
  return { camera, size }
}

function factsOf(camera: CameraDetails): Readonly<Record<string, string | undefined>> {
  const { pictures } = texts
  const { taken, exposure, aperture, sensitivity, focalLength, place } = camera
  return {
    [pictures.taken]: taken && formatTime(taken),
    [pictures.camera]: camera.camera,
    [pictures.lens]: camera.lens,
    [pictures.exposure]: texts.facts([
      exposure !== undefined && pictures.exposureTime(exposureOf(exposure)),
      aperture !== undefined && pictures.aperture(aperture),
      sensitivity !== undefined && pictures.sensitivity(sensitivity),
      focalLength !== undefined && pictures.focalLength(focalLength),
    ]),
    [pictures.place]: place && pictures.coordinates(place.latitude, place.longitude),
  }
}

/** Seconds, as cameras show them: `1/250`. */
function exposureOf(seconds: number): string {
  return seconds < 0.5 ? `1/${Math.round(1 / seconds)}` : String(Number(seconds.toFixed(1)))
}
