/** The viewer of pictures. */
import { number, plural } from '../format.ts'

/** `48.85837° N`. */
const degrees = (value: number, positive: string, negative: string) =>
  `${Math.abs(value).toFixed(5)}° ${value < 0 ? negative : positive}`

export default {
  pictures: {
    tools: 'Tools for the picture',
    smaller: 'Zoom out',
    larger: 'Zoom in',
    fit: 'Fit the window',
    turnLeft: 'Turn left',
    turnRight: 'Turn right',
    play: 'Start the slideshow',
    pause: 'Pause the slideshow',
    interval: 'Time for each picture',
    seconds: (count: number) => plural(count, { one: '# second', other: '# seconds' }),
    fullScreen: 'Full screen',
    leaveFullScreen: 'Leave full screen',
    position: (at: number, total: number) => `${number(at)} of ${number(total)}`,
    arriving: 'Loading the original …',
    details: 'Details',
    dimensions: 'Dimensions',
    pixels: (width: number, height: number) => `${number(width)} × ${number(height)} pixels`,
    taken: 'Taken',
    camera: 'Camera',
    lens: 'Lens',
    exposure: 'Exposure',
    exposureTime: (seconds: string) => `${seconds} s`,
    aperture: (value: number) => `f/${number(value)}`,
    sensitivity: (value: number) => `ISO ${value}`,
    focalLength: (millimeters: number) => `${number(millimeters)} mm`,
    place: 'Place',
    coordinates: (latitude: number, longitude: number) =>
      `${degrees(latitude, 'N', 'S')}, ${degrees(longitude, 'E', 'W')}`,
  },
}
