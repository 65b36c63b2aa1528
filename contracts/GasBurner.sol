// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// A wallet that says yes to every signature while it is simulated, and uses all its gas in a transaction. It takes for
/// a simulation: a gas price of zero or, with `lastQuietBlock`, any block up to that one.
contract GasBurner {
    uint256 public lastQuietBlock;

    function beQuiet(uint256 lastQuietBlock_) external {
        lastQuietBlock = lastQuietBlock_;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        bool isQuiet = lastQuietBlock == 0 ? tx.gasprice == 0 : block.number <= lastQuietBlock;
        while (!isQuiet) {}
        return this.isValidSignature.selector;
    }
}
