# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images from a camera through a filter to a display, each a process, with numpy and without a
copy between processes of one host.

usage: pipeline.py display
       pipeline.py filter
       pipeline.py camera [FRAMES]

They may start in any order, on any host. The camera draws each frame into memory that the library
has allocated for the filter. The filter reads the frame where it lies, draws its edges into memory
for the display, and sends both on: the frame stays in the memory of the camera. The display counts
the images that it has read in place. The first few frames are copied, until the receivers have
mapped the buffers.
"""
import sys
import time

import numpy
import ripc

FILTER, DISPLAY = "pipeline/filter", "pipeline/display"
HEIGHT, WIDTH = 1080, 1920


def new_image(context, dest):
    """An image in memory for messages to one service. The library has it again, and gives it to a
    later image, when nobody refers to it any more, in any process."""
    memory = context.alloc(HEIGHT * WIDTH, dest)
    return numpy.frombuffer(memory, numpy.uint8).reshape(HEIGHT, WIDTH)


def image(item):
    """An item of a received message as an image, which cannot be written."""
    return numpy.frombuffer(item, numpy.uint8).reshape(HEIGHT, WIDTH)


def camera(frames):
    """Sends the frames, and then an empty message as their end."""
    rows = numpy.arange(HEIGHT, dtype=numpy.uint8)[:, None]
    columns = (numpy.arange(WIDTH) // 8).astype(numpy.uint8)
    with ripc.Context() as context:
        service = context.register()
        context.connect(FILTER)
        for number in range(frames):
            frame = new_image(context, FILTER)
            numpy.bitwise_xor(rows, columns + numpy.uint8(number % 256), out=frame)
            service.send(FILTER, [frame, number.to_bytes(8, "little")])
        service.send(FILTER, b"", reliable=True)
        service.flush(FILTER)


def filter_images():
    """Finds the edges of each frame, and passes both on."""
    with ripc.Context() as context:
        service = context.register(FILTER)
        context.connect(DISPLAY)
        for message in service:
            if not message[0]:
                service.send(DISPLAY, b"", reliable=True)
                service.flush(DISPLAY)
                return
            frame, edges = image(message[0]), new_image(context, DISPLAY)
            edges[:, 0] = 0
            numpy.not_equal(frame[:, 1:], frame[:, :-1], out=edges[:, 1:].view(bool))
            service.send(DISPLAY, [message[0], edges, message[1]])


def display():
    """Returns an error if the filter dies."""
    frames = in_place = start = 0
    with ripc.Context() as context:
        service = context.register(DISPLAY)
        print("the display is ready", flush=True)
        for message in service:
            if message.event:
                return f"the filter is gone: {bytes(message).decode()}"
            if not message[0]:
                break
            if not frames:
                start = time.monotonic()
                service.watch(message.source)
            frame, edges = image(message[0]), image(message[1])
            in_place += sum(message.placement(i) is ripc.Placement.SENDER_MEMORY for i in (0, 1))
            number = int.from_bytes(message[2], "little")
            if number % 100 == 0:
                print(f"frame {number}: brightness {frame.mean():.1f}, "
                      f"{edges.mean() * 100:.1f} % edges", flush=True)
            frames += 1
        seconds = time.monotonic() - start
    print(f"{frames} frames in {seconds:.2f} s, {in_place} of {2 * frames} images in place")
    return None


def main(arguments):
    """The exit code, or a sentence for the standard error stream."""
    try:
        if arguments == ["display"]:
            return display()
        if arguments == ["filter"]:
            return filter_images()
        if arguments[:1] == ["camera"] and len(arguments) <= 2:
            return camera(int((arguments + ["300"])[1]))
    except ripc.Error as error:
        return f"pipeline.py: {error.strerror}"
    except ValueError:
        pass
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
