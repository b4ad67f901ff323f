/** Uploads on every page: what is dropped, and the region with their progress, which is loaded with the first one. */
import { Loaded, part } from '../components/loaded.tsx'
import { DropTarget } from './drop-target.tsx'
import { hasUploads } from './start-uploads.ts'
import type { UploadsProps } from './uploads-region.tsx'

const UploadsRegion = part(() => import('./uploads-region.tsx'))

export function Uploads(props: UploadsProps) {
  return (
    <>
      <DropTarget />
      {hasUploads.value && (
        <Loaded quiet>
          <UploadsRegion {...props} />
        </Loaded>
      )}
    </>
  )
}
