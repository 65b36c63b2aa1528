// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// A wallet that is a contract: what its owner's key signs, it has signed (EIP-1271); what its owner says, it does.
contract ContractWallet {
    address public immutable owner;

    constructor(address owner_) {
        owner = owner_;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        address signer = ecrecover(
            digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64])
        );
        return signer != address(0) && signer == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function execute(address target, bytes calldata call) external returns (bytes memory) {
        require(msg.sender == owner, "ContractWallet: only the owner");
        (bool isDone, bytes memory answer) = target.call(call);
        require(isDone, "ContractWallet: the call failed");
        return answer;
    }
}
